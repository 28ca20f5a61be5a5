"""A connection to Redis on which nothing is repeated behind our back: only code that knows what it sent repeats it."""

import functools
import socket
from typing import Any, Final

import redis
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_wire import credentials, redis_url
from rta_writers.connection import topology

TIMEOUT_S: Final = 5.0
SHARED_MAX: Final = 8

Outage = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""


SEND_BUFFER_BYTES: Final = 1 << 20


class UnixConnection(redis.UnixDomainSocketConnection):
    """Has room for a group of bursts under way: who sends it goes on while Redis reads. TCP sees to that by itself."""

    def _connect(self) -> socket.socket:
        made: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return made


def connect(url: str) -> redis.Redis:
    """A client for the URL. Connects when it is first used; that of a Cluster asks for its slots at once."""
    way = credentials.way(url)
    where = redis_url.parse(way.url)
    options: dict[str, Any] = {
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
        "legacy_responses": False,
        # Not told to the server: an ACL that allows it keeps a Redis 7.0 from starting.
        "driver_info": None,
        **way.options,
    }
    try:
        if where.kind is redis_url.Kind.SENTINEL:
            return topology.by_sentinel(where, options)
        if where.kind is redis_url.Kind.CLUSTER:
            return topology.by_cluster(where, options)
        if way.url.startswith("unix:"):
            options["connection_class"] = UnixConnection
        return redis.Redis.from_url(way.url, **options)
    except ValueError as error:
        raise credentials.unusable(way.url, error) from error


def server(client: Any, key: str) -> redis.Redis:
    """A client of the one server that has a key."""
    found: redis.Redis = client.node_of(key) if isinstance(client, topology.ClusterClient) else client
    return found


def look_around(client: Any) -> None:
    """After trouble: in a Cluster another node may have the keys now."""
    if isinstance(client, topology.ClusterClient):
        client.look_around()


@functools.lru_cache(maxsize=SHARED_MAX)
def shared(url: str) -> redis.Redis:
    """A client that lives as long as its process: Spark asks short questions of the same workers at every trigger."""
    return connect(url)
