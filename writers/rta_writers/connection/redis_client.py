"""Clients for a Redis URL: one server, Sentinels or a Cluster, with timeouts and without retries of their own.

redis-py repeats nothing here: only code that knows what it sent can repeat it.
"""

import functools
import socket
import threading
from collections.abc import Sequence
from typing import Any, Final

import hiredis
import redis
import redis.backoff
import redis.connection
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_wire import credentials, redis_url
from rta_writers.connection import topology

TIMEOUT_S: Final = 5.0
TIMEOUT_OPTIONS: Final = ("socket_timeout", "socket_connect_timeout")
REPLY_TYPES: Final = (bytes, int, list, type(None))
"""What commands of writers are answered with, beside errors."""

SHARED_CLIENTS_MAX: Final = 8
SEND_BUFFER_BYTES: Final = 1 << 20
"""Room for a group of bursts in a Unix socket."""


class UnixConnection(redis.UnixDomainSocketConnection):
    """A Unix socket with a large send buffer, so that sending does not wait for Redis to read. TCP grows its own."""

    def _connect(self) -> socket.socket:
        connected: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return connected


def connect(url: str) -> redis.Redis:
    """A client for the URL. It connects when it is first used; that of a Cluster asks for the slots at once."""
    resolved = credentials.resolve_url(url)
    address = redis_url.parse(resolved.url)
    options = resolved.client_options(TIMEOUT_S) | {
        "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
        "legacy_responses": False,
    }
    try:
        _check_query(resolved.url if address.mode is redis_url.RedisMode.SINGLE else address.node_url("host", 1))
        if address.mode is redis_url.RedisMode.SENTINEL:
            return topology.sentinel_client(address, options)
        if address.mode is redis_url.RedisMode.CLUSTER:
            return topology.cluster_client(address, options)
        if resolved.url.startswith("unix:"):
            options["connection_class"] = UnixConnection
        return redis.Redis.from_url(resolved.url, **options)
    except ValueError as error:
        raise redis_url.bad_url(resolved.url, error) from error


def _check_query(url: str) -> None:
    """Raise ValueError for what redis-py takes from a URL at first, and then fails on when it connects."""
    options: dict[str, Any] = dict(redis.connection.parse_url(url))
    options.pop("max_connections", None)  # of the pool
    connection_class = options.pop("connection_class", redis.Connection)
    try:
        connection_class(**options)
    except TypeError as error:
        raise ValueError(f"its query has an option that redis-py does not know ({error})") from error
    except redis.exceptions.RedisError as error:
        raise ValueError(str(error)) from error
    for name in TIMEOUT_OPTIONS:
        if not 0 < options.get(name, TIMEOUT_S) <= threading.TIMEOUT_MAX:
            raise ValueError(f"its {name} is not a number of seconds above 0")
    try:
        options.get("host", "").encode("idna")
    except UnicodeError as error:
        raise ValueError("its host is not the name of a host") from error


def client_for_key(client: Any, key: str) -> redis.Redis:
    """A client of the one server that has a key."""
    node_client: redis.Redis = client.client_for_key(key) if isinstance(client, topology.ClusterClient) else client
    return node_client


def execute_all(client: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The replies to commands that are sent in one round trip; of a Cluster, in one for each. The first error is raised
    after all were executed."""
    if isinstance(client, topology.ClusterClient):
        return [client.execute_command(*command) for command in commands]
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    replies: list[Any] = pipe.execute()
    return replies


def parsed_replies(connection: Any, count: int) -> list[Any]:
    """Replies that were read from the socket with the one before them, at most `count`; fewer where more have to be
    read. Errors of commands are among them. redis-py takes eight calls for each reply, which this leaves out."""
    reader = getattr(getattr(connection, "_parser", None), "_reader", None)
    if type(reader) is not hiredis.Reader:
        return []
    replies: list[Any] = []
    while len(replies) < count:
        reply = reader.gets()
        if type(reply) in REPLY_TYPES or isinstance(reply, redis.exceptions.ResponseError):
            replies.append(reply)
        elif isinstance(reply, Exception):
            raise reply
        elif type(reply) is not hiredis.PushNotification:
            break  # there is no whole reply
    return replies


def refresh_slots(client: Any) -> None:
    """Ask a Cluster again which node has which keys: after a failure it may be another one."""
    if isinstance(client, topology.ClusterClient):
        client.refresh_slots()


@functools.lru_cache(maxsize=SHARED_CLIENTS_MAX)
def shared_client(url: str) -> redis.Redis:
    """A client that lives as long as its process: Spark plans and commits every trigger in the same worker."""
    return connect(url)
