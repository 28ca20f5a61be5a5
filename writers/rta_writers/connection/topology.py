"""Clients for more than one server: the master that Sentinels name, or the nodes of a Cluster. Repeats nothing."""

from typing import Any, Final, cast

import redis
import redis.cluster
import redis.connection
import redis.exceptions
import redis.sentinel

from rta_wire import redis_url
from rta_writers.connection import retry

ACCOUNT: Final = ("username", "password")


def sentinel_client(where: redis_url.RedisUrl, options: dict[str, Any]) -> redis.Redis:
    """A client of whoever is master. Asks the Sentinels whenever it connects."""
    chosen = {**options, **_of_url(where)}
    account = {name: chosen[name] for name in ACCOUNT if name in chosen}
    plain = {name: value for name, value in chosen.items() if name not in (*ACCOUNT, "db")}
    watched = Sentinels(where.hosts, sentinel_kwargs=plain, **chosen)  # type: ignore[no-untyped-call]
    if account:
        # Sentinels want a password seldom, and then the same.
        watched.with_password = redis.sentinel.Sentinel(where.hosts, sentinel_kwargs={**plain, **account})
    client = watched.master_for(  # type: ignore[no-untyped-call]
        where.master, redis_class=MasterClient, ssl=where.scheme == "rediss"
    )
    client.sentinels = watched
    return cast("redis.Redis", client)


def cluster_client(where: redis_url.RedisUrl, options: dict[str, Any]) -> redis.Redis:
    """A client of all nodes. Asks for the slots at once, and waits out a short outage for it."""
    nodes = [redis.cluster.ClusterNode(*host) for host in where.hosts]
    chosen = {**options, **_of_url(where)}
    borne = retry.RetryPolicy(where.url)
    while True:
        try:
            made = ClusterClient(startup_nodes=nodes, ssl=where.scheme == "rediss", **chosen)
        except redis.exceptions.RedisClusterException as error:
            borne.wait(_named(error))
        except retry.REDIS_ERRORS as error:
            borne.wait(error)
        else:
            return cast("redis.Redis", made)


class Sentinels(redis.sentinel.Sentinel):
    """Asked without a password, then with the one for the servers."""

    with_password: redis.sentinel.Sentinel | None = None

    def discover_master(self, service_name: str) -> Any:
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except redis.sentinel.MasterNotFoundError:
            if self.with_password is None:
                raise
            return self.with_password.discover_master(service_name)

    def close(self) -> None:
        for one in (self, self.with_password):
            for sentinel in one.sentinels if one is not None else ():
                sentinel.close()


class MasterClient(redis.Redis):
    """Closes what asked for the master too."""

    sentinels: Sentinels | None = None

    def close(self) -> None:
        super().close()
        if self.sentinels is not None:
            self.sentinels.close()


class ClusterClient(redis.cluster.RedisCluster):
    """A Cluster whose troubles are called as those of one server."""

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisClusterException as error:
            raise _named(error) from error

    def client_for_key(self, key: str) -> redis.Redis:
        """A client of the node that has a key."""
        try:
            node = self.get_node_from_key(key)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisClusterException as error:
            raise _named(error) from error
        if node is None:
            raise redis.exceptions.ConnectionError(f"no node has {key}")
        return self.get_redis_connection(node)

    def refresh_slots(self) -> None:
        """Ask anew who has which slots."""
        try:
            self.nodes_manager.initialize()
        except redis.exceptions.RedisClusterException as error:
            raise _named(error) from error


def _of_url(where: redis_url.RedisUrl) -> dict[str, Any]:
    """User, password and options of the URL, as redis-py reads them. They count for more than ours."""
    found: dict[str, Any] = dict(redis.connection.parse_url(where.node_url("host", 1)))
    for name in ("host", "port", "connection_class"):
        found.pop(name, None)
    if where.mode is redis_url.RedisMode.CLUSTER:
        found.pop("db", None)
    return found


def _named(error: redis.exceptions.RedisClusterException) -> redis.exceptions.ConnectionError:
    return redis.exceptions.ConnectionError(str(error))
