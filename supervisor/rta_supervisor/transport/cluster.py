"""A Redis Cluster as a topology: each command goes to the owner of its keys, those of one owner together.

Retries only what a server has refused because another server has the keys, or will have them in a moment.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import OUTAGE_ERRORS
from rta_supervisor.transport.topology import DiscoveredServers, HostPort, SendBatch
from rta_wire import keys, redis_url

REDIRECTIONS_MAX: Final = 16
"""How often a command is sent to another server before its refusal is given as its reply."""

TRY_AGAIN_PAUSE_S: Final = 0.05
"""Between tries while keys move from one server to another."""

_REDIRECTIONS: Final = (redis.exceptions.AskError, redis.exceptions.TryAgainError)
"""Error replies of a server that does not have the keys, or not all of them. A MovedError is an AskError too."""


class ClusterTopology:
    """The servers of a Cluster, and which of them owns each slot."""

    def __init__(self, address: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._address = address
        self._servers = DiscoveredServers(address, options)
        self._owners: list[HostPort] = []
        """The owner of each slot; empty until it is known."""
        self._tags: dict[int, str] = {}

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        """Send a batch. Gives replies in order, errors among them; commands run in order within a slot only."""
        replies: list[Any] = [None] * len(batch)
        by_owner = await self._by_owner(batch, range(len(batch)))
        for _ in range(REDIRECTIONS_MAX):
            await self._send(batch, by_owner, replies)
            redirected = _redirected(replies, range(len(batch)))
            if not redirected:
                break
            for number in redirected:
                replies[number] = await self._follow(replies[number], batch[number])
            again = _redirected(replies, redirected)
            if any(isinstance(replies[number], redis.exceptions.TryAgainError) for number in again):
                await anyio.sleep(TRY_AGAIN_PAUSE_S)
            by_owner = await self._by_owner(batch, again)
        return replies

    async def senders(self) -> list[SendBatch]:
        """A function for each primary, which sends a batch to it."""
        return [functools.partial(self._send_to, host_port) for host_port in await self._primaries()]

    async def find_primary_tags(self) -> list[str]:
        """For each primary a hash tag whose keys are stored there. Asks the servers for their slots first."""
        await self._find_owners()
        return [self._tag(self._owners.index(host_port)) for host_port in await self._primaries()]

    async def close(self) -> None:
        """Close all connections."""
        await self._servers.close()

    async def _by_owner(self, batch: Sequence[commands.Command], numbers: Iterable[int]) -> dict[HostPort, list[int]]:
        """The places of commands in a batch, by the owner of their keys."""
        owners = self._owners or await self._find_owners()
        by_owner: dict[HostPort, list[int]] = {}
        for number in numbers:
            by_owner.setdefault(owners[slot_of(batch[number])], []).append(number)
        return by_owner

    async def _follow(self, error: redis.exceptions.ResponseError, command: commands.Command) -> Any:
        """The reply of another server to a redirected command, or its error if the command has to be sent again."""
        if isinstance(error, redis.exceptions.MovedError):
            await self._note_new_owner(error)
            return error
        if isinstance(error, redis.exceptions.AskError):
            return await self._ask(error, command)
        return error

    async def _primaries(self) -> list[HostPort]:
        return sorted(set(self._owners or await self._find_owners()))

    async def _send(
        self, batch: Sequence[commands.Command], by_owner: dict[HostPort, list[int]], replies: list[Any]
    ) -> None:
        """Send to all owners at once, and put replies in their places. An outage is raised when all have replied."""
        outages: list[BaseException] = []

        async def send(host_port: HostPort, numbers: list[int]) -> None:
            try:
                server_replies = await self._send_to(host_port, [batch[number] for number in numbers])
            except OUTAGE_ERRORS as error:
                outages.append(error)
                return
            for number, reply in zip(numbers, server_replies, strict=True):
                replies[number] = reply

        if len(by_owner) == 1:
            [(host_port, numbers)] = by_owner.items()
            await send(host_port, numbers)
        else:
            async with anyio.create_task_group() as owners:
                for host_port, numbers in by_owner.items():
                    owners.start_soon(send, host_port, numbers)
        if outages:
            raise outages[0]

    async def _send_to(self, host_port: HostPort, batch: Sequence[commands.Command]) -> list[Any]:
        try:
            return await self._servers.get(host_port).exchange(batch)
        except OUTAGE_ERRORS:
            # Another server may own its slots by now: the next command asks for them first.
            self._owners = []
            await self._servers.drop(host_port)
            raise

    async def _note_new_owner(self, error: redis.exceptions.MovedError) -> None:
        """Note that a slot has moved. Others may have moved with it: the next commands about them find out."""
        owners = self._owners or await self._find_owners()
        owners[int(error.slot_id)] = self._server_of(error)

    async def _ask(self, error: redis.exceptions.AskError, command: commands.Command) -> Any:
        """The reply of a server that has keys already whose slot has not moved yet."""
        _, reply = await self._send_to(self._server_of(error), [("ASKING",), command])
        return reply

    def _server_of(self, error: redis.exceptions.AskError) -> HostPort:
        """The server that an error names. Without a host in it, it is on the first host of the URL."""
        return error.host or self._address.hosts[0][0], int(error.port)

    async def _find_owners(self) -> list[HostPort]:
        """Ask known servers, then those of the URL, for the owner of each slot, until one knows all."""
        problems = []
        for host_port in dict.fromkeys((*self._owners, *self._address.hosts)):
            label = f"{host_port[0]}:{host_port[1]}"
            try:
                [reply] = await self._servers.get(host_port).exchange([("CLUSTER", "SLOTS")])
            except OUTAGE_ERRORS as error:
                problems.append(f"{label} says {error}")
                continue
            if isinstance(reply, Exception):
                problems.append(f"{label} says {reply}")
                continue
            owners = _parse_slots(reply, host_port)
            if None in owners:
                problems.append(f"{label} knows no owner of slot {owners.index(None)}")
                continue
            self._owners = [owner for owner in owners if owner is not None]
            return self._owners
        raise redis.exceptions.ConnectionError(f"no node of the Cluster knows its slots: {'; '.join(problems)}")

    def _tag(self, slot: int) -> str:
        """A text whose slot is the given one."""
        if slot not in self._tags:
            number = 0
            while keys.key_slot(str(number)) != slot:
                number += 1
            self._tags[slot] = str(number)
        return self._tags[slot]


def _redirected(replies: Sequence[Any], numbers: Iterable[int]) -> list[int]:
    """The places of replies that send their command to another server."""
    return [number for number in numbers if isinstance(replies[number], _REDIRECTIONS)]


def _parse_slots(reply: Sequence[Any], asked: HostPort) -> list[HostPort | None]:
    """The owner of each slot by CLUSTER SLOTS. A server without a name is the one that was asked."""
    owners: list[HostPort | None] = [None] * keys.SLOTS
    for first, last, primary, *_ in reply:
        owner = (primary[0].decode() or asked[0], int(primary[1]))
        owners[int(first) : int(last) + 1] = [owner] * (int(last) - int(first) + 1)
    return owners


_KEY_IS_SECOND_ARGUMENT: Final = frozenset({"XINFO", "XGROUP", "MEMORY", "OBJECT"})
_KEYLESS: Final = frozenset({"PING", "ECHO", "INFO", "FUNCTION", "TIME", "CONFIG", "ROLE", "CLUSTER", "ACL", "COMMAND"})


def slot_of(command: commands.Command) -> int:
    """The slot of a command's first key; 0 for a command without keys."""
    name = command[0]
    if name == "FCALL":
        return _key_slot(command[3]) if command[2] else 0
    if name in ("XREADGROUP", "XREAD"):
        return _key_slot(command[command.index("STREAMS") + 1])
    if name in _KEY_IS_SECOND_ARGUMENT:
        return _key_slot(command[2])
    if name in _KEYLESS or len(command) == 1:
        return 0
    return _key_slot(command[1])


def _key_slot(key: commands.Argument) -> int:
    return keys.key_slot(key if isinstance(key, bytes) else str(key))
