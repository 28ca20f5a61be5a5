"""The daemon: builds all parts of a supervisor, runs them, watches over them and stops them. What a part does is left
to its own package.
"""
