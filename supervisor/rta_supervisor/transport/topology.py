"""Which server gets a command: the only one, or the one that Sentinels call master. A Cluster is in `cluster`.

A topology sends a batch and gives its replies in order. It retries nothing that may have been done.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import redis.asyncio
import redis.exceptions

from rta_supervisor.transport import commands, failures, pipeline
from rta_wire import redis_url

HostPort = tuple[str, int]
SendBatch = Callable[[Sequence[commands.Command]], Awaitable[list[Any]]]
"""Sends a batch to one server and gives its replies."""


class NodePools:
    """Pools of connections to servers whose addresses are discovered, by host and port."""

    def __init__(self, address: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._pools: dict[HostPort, redis.asyncio.ConnectionPool] = {}

    def get(self, node: HostPort) -> redis.asyncio.ConnectionPool:
        """The pool of a server, made when it is first needed."""
        if node not in self._pools:
            url = self._address.node_url(*node)
            self._pools[node] = redis.asyncio.ConnectionPool.from_url(url, **self._options)
        return self._pools[node]

    async def drop(self, node: HostPort) -> None:
        """Close the connections to one server."""
        if (pool := self._pools.pop(node, None)) is not None:
            await pool.disconnect()

    async def close(self) -> None:
        """Close all connections."""
        for node in list(self._pools):
            await self.drop(node)


class Topology(Protocol):
    """The servers of one Redis, and which of them gets a command."""

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        """Send a batch. Gives replies in order, errors among them; commands run in order within a slot only."""

    async def senders(self) -> list[SendBatch]:
        """A function for each server that takes writes, which sends a batch to it."""

    async def tags(self) -> list[str]:
        """For each server that takes writes, a hash tag of keys that are stored there; empty if any key is."""

    async def close(self) -> None:
        """Close all connections."""


class SingleServer:
    """One server, by the URL of its pool."""

    def __init__(self, pool: redis.asyncio.ConnectionPool) -> None:
        self.pool = pool

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        return await pipeline.exchange(self.pool, batch)

    async def senders(self) -> list[SendBatch]:
        return [self.exchange]

    async def tags(self) -> list[str]:
        return [""]

    async def close(self) -> None:
        await self.pool.disconnect()


class SentinelTopology:
    """The server that Sentinels call master. They are asked again after an outage and whenever `tags` is called."""

    def __init__(self, address: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._address = address
        self._pools = NodePools(address, options)
        self._options = options
        self._master: HostPort | None = None

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        master = self._master or await self._find_master()
        try:
            replies = await pipeline.exchange(self._pools.get(master), batch)
        except failures.OUTAGE_ERRORS:
            await self._forget(master)
            raise
        if isinstance(pipeline.first_error(replies), redis.exceptions.ReadOnlyError):
            # It has become a replica, and has not done what it refused.
            await self._forget(master)
        return replies

    async def senders(self) -> list[SendBatch]:
        return [self.exchange]

    async def tags(self) -> list[str]:
        """One tag, after the Sentinels were asked: a master that only we can still reach has been replaced."""
        previous = self._master
        try:
            master = await self._find_master()
        except failures.OUTAGE_ERRORS:
            if previous is None:
                raise
            # No Sentinel names a master, and the one that we have may be well.
            return [""]
        if previous is not None and master != previous:
            await self._pools.drop(previous)
        return [""]

    async def close(self) -> None:
        await self._pools.close()

    async def _forget(self, master: HostPort) -> None:
        if self._master == master:
            self._master = None
        await self._pools.drop(master)

    async def _find_master(self) -> HostPort:
        """Ask the Sentinels in turn, until one names a server that says itself that it is the master."""
        problems = []
        for host, port in self._address.hosts:
            try:
                address = await self._ask_sentinel(host, port)
            except (*failures.OUTAGE_ERRORS, redis.exceptions.ResponseError) as error:
                problems.append(f"{host}:{port} says {error}")
                continue
            if address is None:
                problems.append(f"{host}:{port} knows no {self._address.master!r}")
                continue
            node = address[0].decode(), int(address[1])
            if not await self._is_master(node):
                problems.append(f"{host}:{port} names {node[0]}:{node[1]}, which is away or no master yet")
                continue
            self._master = node
            return node
        raise redis.exceptions.ConnectionError(f"no Sentinel has a master: {'; '.join(problems)}")

    async def _is_master(self, node: HostPort) -> bool:
        try:
            [role] = await pipeline.exchange(self._pools.get(node), [("ROLE",)])
        except failures.OUTAGE_ERRORS:
            await self._pools.drop(node)
            return False
        return not isinstance(role, Exception) and role[0] == b"master"

    async def _ask_sentinel(self, host: str, port: int) -> list[bytes] | None:
        """Host and port of the master as one Sentinel knows them, asked without a password first: most need none."""
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master)
        secrets = ("password", "username")
        without_secrets = {name: value for name, value in self._options.items() if name not in secrets}
        scheme = self._address.scheme
        for url, options in (
            (f"{scheme}://{host}:{port}", without_secrets),
            (f"{scheme}://{self._address.account}{host}:{port}", self._options),
        ):
            pool = redis.asyncio.ConnectionPool.from_url(url, **options)
            try:
                [reply] = await pipeline.exchange(pool, [command])
            finally:
                await pool.disconnect()
            if not isinstance(reply, redis.exceptions.AuthenticationError | redis.exceptions.NoPermissionError):
                break
        if isinstance(reply, Exception):
            raise reply
        address: list[bytes] | None = reply
        return address
