"""The connection to Redis of a writer or reader: made, routed, retried. Knows no session."""

from rta_writers.connection.redis_client import connect

__all__ = ["connect"]
