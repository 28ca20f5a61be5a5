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


SEND_BUFFER_BYTES: Final = 1 << 20


class UnixConnection(redis.UnixDomainSocketConnection):
    """Has room for a group of bursts under way: who sends it goes on while Redis reads. TCP sees to that by itself."""

    def _connect(self) -> socket.socket:
        made: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return made


def connect(url: str) -> redis.Redis:
    """A client for the URL. Connects when it is first used; that of a Cluster asks for its slots at once."""
    way = credentials.resolve_url(url)
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
        if where.mode is redis_url.RedisMode.SENTINEL:
            return topology.sentinel_client(where, options)
        if where.mode is redis_url.RedisMode.CLUSTER:
            return topology.cluster_client(where, options)
        if way.url.startswith("unix:"):
            options["connection_class"] = UnixConnection
        return redis.Redis.from_url(way.url, **options)
    except ValueError as error:
        raise redis_url.bad_url(way.url, error) from error


def client_for_key(client: Any, key: str) -> redis.Redis:
    """A client of the one server that has a key."""
    found: redis.Redis = client.client_for_key(key) if isinstance(client, topology.ClusterClient) else client
    return found


def refresh_slots(client: Any) -> None:
    """After trouble: in a Cluster another node may have the keys now."""
    if isinstance(client, topology.ClusterClient):
        client.refresh_slots()


@functools.lru_cache(maxsize=SHARED_MAX)
def shared_client(url: str) -> redis.Redis:
    """A client that lives as long as its process: Spark asks short questions of the same workers at every trigger."""
    return connect(url)
