"""Connections to Redis for writers and readers: opened, routed to the right server, retried.

Knows URLs, commands and errors. Sessions, streams and units are left to the packages above it.
"""

from rta_writers.connection.redis_client import connect

__all__ = ["connect"]
