"""Which server gets a command: the only one, the one that Sentinels call master, or the owner of a slot of a Cluster.

A route sends a batch and gathers its answers in order. It repeats nothing that may have been done. The route through a
Cluster is in `cluster`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import redis.asyncio
import redis.exceptions

from rta_supervisor.transport import commands, failures, pipeline
from rta_wire import redis_url

HostPort = tuple[str, int]
SendBatch = Callable[[Sequence[commands.Command]], Awaitable[list[Any]]]
"""Sends a batch to one server."""


class NodePools:
    """Connections to servers that are found while we run."""

    def __init__(self, where: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._where = where
        self._options = options
        self._pools: dict[HostPort, redis.asyncio.ConnectionPool] = {}

    def at(self, place: HostPort) -> redis.asyncio.ConnectionPool:
        if place not in self._pools:
            url = self._where.node_url(*place)
            self._pools[place] = redis.asyncio.ConnectionPool.from_url(url, **self._options)
        return self._pools[place]

    async def drop(self, place: HostPort) -> None:
        if (pool := self._pools.pop(place, None)) is not None:
            await pool.disconnect()

    async def close(self) -> None:
        for place in list(self._pools):
            await self.drop(place)


class Topology(Protocol):
    """A way to send commands."""

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        """Answers in order, errors of Redis among them. In order for each slot; nothing is promised across slots."""

    async def senders(self) -> list[SendBatch]:
        """Every server that takes writes, to be sent a batch of its own."""

    async def tags(self) -> list[str]:
        """For each server that takes writes a hash tag of a key that lives there."""

    async def close(self) -> None: ...


class SingleServer:
    """One server."""

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
    """The server that Sentinels call master. They are asked anew after an outage and at each beat."""

    def __init__(self, where: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._where = where
        self._pools = NodePools(where, options)
        self._options = options
        self._master: HostPort | None = None

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        place = self._master or await self._find()
        try:
            answers = await pipeline.exchange(self._pools.at(place), batch)
        except failures.OUTAGE_ERRORS:
            await self._forget(place)
            raise
        if isinstance(pipeline.first_error(answers), redis.exceptions.ReadOnlyError):
            # It was master once. What it has refused it has not done.
            await self._forget(place)
        return answers

    async def senders(self) -> list[SendBatch]:
        return [self.exchange]

    async def tags(self) -> list[str]:
        """Asked at each beat: a master that only we can still reach has been replaced."""
        before = self._master
        try:
            place = await self._find()
        except failures.OUTAGE_ERRORS:
            if before is None:
                raise
            # No Sentinel has an answer, and the master that we have may be well.
            return [""]
        if before is not None and place != before:
            await self._pools.drop(before)
        return [""]

    async def close(self) -> None:
        await self._pools.close()

    async def _forget(self, place: HostPort) -> None:
        if self._master == place:
            self._master = None
        await self._pools.drop(place)

    async def _find(self) -> HostPort:
        asked = []
        for host, port in self._where.hosts:
            try:
                found = await self._ask(host, port)
            except (*failures.OUTAGE_ERRORS, redis.exceptions.ResponseError) as error:
                asked.append(f"{host}:{port} says {error}")
                continue
            if found is None:
                asked.append(f"{host}:{port} knows no {self._where.master!r}")
                continue
            place = found[0].decode(), int(found[1])
            if not await self._is_master(place):
                asked.append(f"{host}:{port} names {place[0]}:{place[1]}, which is away or no master yet")
                continue
            self._master = place
            return place
        raise redis.exceptions.ConnectionError(f"no Sentinel has a master: {'; '.join(asked)}")

    async def _is_master(self, place: HostPort) -> bool:
        try:
            [role] = await pipeline.exchange(self._pools.at(place), [("ROLE",)])
        except failures.OUTAGE_ERRORS:
            await self._pools.drop(place)
            return False
        return not isinstance(role, Exception) and role[0] == b"master"

    async def _ask(self, host: str, port: int) -> list[bytes] | None:
        """Without a password first: most Sentinels want none."""
        call = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._where.master)
        secrets = ("password", "username")
        bare = {name: value for name, value in self._options.items() if name not in secrets}
        scheme = self._where.scheme
        for url, options in (
            (f"{scheme}://{host}:{port}", bare),
            (f"{scheme}://{self._where.account}{host}:{port}", self._options),
        ):
            pool = redis.asyncio.ConnectionPool.from_url(url, **options)
            try:
                [answer] = await pipeline.exchange(pool, [call])
            finally:
                await pool.disconnect()
            if not isinstance(answer, redis.exceptions.AuthenticationError | redis.exceptions.NoPermissionError):
                break
        if isinstance(answer, Exception):
            raise answer
        found: list[bytes] | None = answer
        return found
