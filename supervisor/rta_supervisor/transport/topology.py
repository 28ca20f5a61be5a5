"""Which server gets a command: the only one, or the one that Sentinels call master. A Cluster is in `cluster`.

A topology sends a batch and gives its replies in order. It retries nothing that may have been done.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import redis.exceptions

from rta_supervisor.transport import commands, failures, pipeline
from rta_wire import redis_url

HostPort = tuple[str, int]
SendBatch = Callable[[Sequence[commands.Command]], Awaitable[list[Any]]]
"""Sends a batch to one server and gives its replies."""


class DiscoveredServers:
    """Servers whose addresses are discovered, by host and port."""

    def __init__(self, address: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._servers: dict[HostPort, pipeline.RedisServer] = {}

    def get(self, host_port: HostPort) -> pipeline.RedisServer:
        """A server, with connections that are made when they are first needed."""
        if host_port not in self._servers:
            self._servers[host_port] = pipeline.RedisServer(self._address.node_url(*host_port), self._options)
        return self._servers[host_port]

    async def drop(self, host_port: HostPort) -> None:
        """Close the connections to one server."""
        if (server := self._servers.pop(host_port, None)) is not None:
            await server.close()

    async def close(self) -> None:
        """Close all connections."""
        for host_port in list(self._servers):
            await self.drop(host_port)


class Topology(Protocol):
    """The servers of one Redis, and which of them gets a command."""

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        """Send a batch. Gives replies in order, errors among them; commands run in order within a slot only."""

    async def senders(self) -> list[SendBatch]:
        """A function for each server that takes writes, which sends a batch to it."""

    async def find_primary_tags(self) -> list[str]:
        """Find out which servers take writes. Gives a hash tag for each, whose keys are stored there.

        The tag is empty where one server has all keys.
        """

    async def close(self) -> None:
        """Close all connections."""


class SingleServer(pipeline.RedisServer):
    """A Redis that is one server."""

    async def senders(self) -> list[SendBatch]:
        return [self.exchange]

    async def find_primary_tags(self) -> list[str]:
        return [""]


class SentinelTopology:
    """The server that Sentinels call master. They are asked again after an outage, and by `find_primary_tags`."""

    def __init__(self, address: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._address = address
        self._servers = DiscoveredServers(address, options)
        self._options = options
        self._master: HostPort | None = None

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        master = self._master or await self._find_master()
        try:
            replies = await self._servers.get(master).exchange(batch)
        except failures.OUTAGE_ERRORS:
            await self._forget(master)
            raise
        if isinstance(_first_error(replies), redis.exceptions.ReadOnlyError):
            # It has become a replica, and has not done what it refused.
            await self._forget(master)
        return replies

    async def senders(self) -> list[SendBatch]:
        return [self.exchange]

    async def find_primary_tags(self) -> list[str]:
        """An empty tag. Asks the Sentinels first, as a master that still answers may have been replaced."""
        previous = self._master
        try:
            master = await self._find_master()
        except failures.OUTAGE_ERRORS:
            if previous is None:
                raise
            # No Sentinel names a master, and the one that we have may be well.
            return [""]
        if previous is not None and master != previous:
            await self._servers.drop(previous)
        return [""]

    async def close(self) -> None:
        await self._servers.close()

    async def _forget(self, master: HostPort) -> None:
        if self._master == master:
            self._master = None
        await self._servers.drop(master)

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
            host_port = address[0].decode(), int(address[1])
            if not await self._is_master(host_port):
                problems.append(f"{host}:{port} names {host_port[0]}:{host_port[1]}, which is away or no master yet")
                continue
            self._master = host_port
            return host_port
        raise redis.exceptions.ConnectionError(f"no Sentinel has a master: {'; '.join(problems)}")

    async def _is_master(self, host_port: HostPort) -> bool:
        try:
            [role] = await self._servers.get(host_port).exchange([("ROLE",)])
        except failures.OUTAGE_ERRORS:
            await self._servers.drop(host_port)
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
            sentinel = pipeline.RedisServer(url, options)
            try:
                [reply] = await sentinel.exchange([command])
            finally:
                await sentinel.close()
            if not isinstance(reply, redis.exceptions.AuthenticationError | redis.exceptions.NoPermissionError):
                break
        if isinstance(reply, Exception):
            raise reply
        address: list[bytes] | None = reply
        return address


def _first_error(replies: Sequence[Any]) -> redis.exceptions.RedisError | None:
    return next((reply for reply in replies if isinstance(reply, redis.exceptions.RedisError)), None)
