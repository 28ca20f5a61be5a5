"""Clients for more than one server: the master that Sentinels name, or the nodes of a Cluster."""

import contextlib
from typing import Any, Final, cast

import redis
import redis.cluster
import redis.connection
import redis.exceptions
import redis.sentinel

from rta_wire import redis_url
from rta_writers.connection import retry

ACCOUNT_OPTIONS: Final = ("username", "password")


class SentinelDiscovery(redis.sentinel.Sentinel):
    """Asks Sentinels for the master: without a password, then with that of the servers."""

    with_password: redis.sentinel.Sentinel | None = None

    def discover_master(self, service_name: str) -> Any:
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except redis.sentinel.MasterNotFoundError:
            if self.with_password is not None:
                with contextlib.suppress(redis.sentinel.MasterNotFoundError):
                    return self.with_password.discover_master(service_name)
        # The text of redis-py has all options of each connection.
        addresses = [sentinel.connection_pool.connection_kwargs for sentinel in self.sentinels]
        asked = ", ".join(f"{address['host']}:{address['port']}" for address in addresses)
        raise redis.sentinel.MasterNotFoundError(f"no Sentinel names a master {service_name!r}, of {asked}")

    def close(self) -> None:
        """Close the connections to all Sentinels."""
        for discovery in (self, self.with_password):
            for sentinel in discovery.sentinels if discovery is not None else ():
                sentinel.close()


class MasterClient(redis.Redis):
    """A client of the master that Sentinels name. Closing it closes the connections to the Sentinels too."""

    discovery: SentinelDiscovery | None = None

    def close(self) -> None:
        super().close()
        if self.discovery is not None:
            self.discovery.close()


class ClusterClient(redis.cluster.RedisCluster):
    """A client of all nodes of a Cluster. Its failures are connection errors, as those of one server are."""

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisClusterException as error:
            raise _connection_error(error) from error

    def client_for_key(self, key: str) -> redis.Redis:
        """A client of the node that has a key."""
        try:
            node = self.get_node_from_key(key)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisClusterException as error:
            raise _connection_error(error) from error
        if node is None:
            raise redis.exceptions.ConnectionError(f"no node has {key}")
        return self.get_redis_connection(node)

    def refresh_slots(self) -> None:
        """Ask the nodes again which of them has which slots."""
        try:
            self.nodes_manager.initialize()
        except redis.exceptions.RedisClusterException as error:
            raise _connection_error(error) from error


def sentinel_client(address: redis_url.RedisUrl, options: dict[str, Any]) -> redis.Redis:
    """A client of the current master. It asks the Sentinels whenever it connects."""
    server_options = {**options, **_url_options(address)}
    account = {name: server_options[name] for name in ACCOUNT_OPTIONS if name in server_options}
    sentinel_options = {name: value for name, value in server_options.items() if name not in (*ACCOUNT_OPTIONS, "db")}
    discovery = SentinelDiscovery(  # type: ignore[no-untyped-call]
        address.hosts, sentinel_kwargs=sentinel_options, **server_options
    )
    if account:
        # Sentinels seldom want a password; where they do, it is that of the servers.
        discovery.with_password = redis.sentinel.Sentinel(
            address.hosts, sentinel_kwargs={**sentinel_options, **account}
        )
    client = discovery.master_for(  # type: ignore[no-untyped-call]
        address.master, redis_class=MasterClient, ssl=address.scheme == "rediss"
    )
    client.discovery = discovery
    return cast("redis.Redis", client)


def cluster_client(address: redis_url.RedisUrl, options: dict[str, Any]) -> redis.Redis:
    """A client of all nodes. It asks for the slots at once, and waits out a short outage for them."""
    nodes = [redis.cluster.ClusterNode(*host) for host in address.hosts]
    server_options = {**options, **_url_options(address)}
    policy = retry.RetryPolicy(address.url)
    while True:
        try:
            client = ClusterClient(startup_nodes=nodes, ssl=address.scheme == "rediss", **server_options)
        except redis.exceptions.RedisClusterException as error:
            policy.wait(_connection_error(error))
        except retry.REDIS_ERRORS as error:
            policy.wait(error)
        else:
            return cast("redis.Redis", client)


def _url_options(address: redis_url.RedisUrl) -> dict[str, Any]:
    """User, password and options of the URL as redis-py reads them. They override the defaults of this package."""
    parsed: dict[str, Any] = dict(redis.connection.parse_url(address.node_url("host", 1)))
    for name in ("host", "port", "connection_class"):
        parsed.pop(name, None)
    if address.mode is redis_url.RedisMode.CLUSTER:
        parsed.pop("db", None)
    return parsed


def _connection_error(error: redis.exceptions.RedisClusterException) -> redis.exceptions.ConnectionError:
    return redis.exceptions.ConnectionError(str(error))
