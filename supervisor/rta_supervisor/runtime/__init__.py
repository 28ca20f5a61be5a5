"""The daemon: builds all parts of a supervisor, runs their loops and stops them. What a part does is left to its own
package.
"""
