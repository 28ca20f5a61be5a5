"""Redis as commands and replies: connections, topologies, pipelines, errors, and loading of server functions.

Knows no session: what a command means is left to the packages that own its keys.
"""
