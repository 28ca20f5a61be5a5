"""The route through a Cluster: each command goes to the owner of its keys, those of one owner together.

Repeats only what a node has refused to do because another one has the keys now, or will have in a moment.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor.transport import commands, pipeline
from rta_supervisor.transport.failures import OUTAGE_ERRORS
from rta_supervisor.transport.topology import HostPort, NodePools, SendBatch
from rta_wire import keys, redis_url

MOVES_MAX: Final = 16
"""Times that a command is sent on before somebody has to look into it."""

MOVE_PAUSE_S: Final = 0.05
"""Between tries while keys are on their way from one node to another."""


_ELSEWHERE: Final = (redis.exceptions.AskError, redis.exceptions.TryAgainError)
"""Answers that say that another node has the keys, or will have. A MovedError is an AskError too."""


class ClusterTopology:
    """Owners of slots. Each command goes to the owner of its keys, those of one owner together."""

    def __init__(self, where: redis_url.RedisUrl, options: dict[str, Any]) -> None:
        self._where = where
        self._pools = NodePools(where, options)
        self._owners: list[HostPort] = []
        self._tags: dict[int, str] = {}

    async def exchange(self, batch: Sequence[commands.Command]) -> list[Any]:
        answers: list[Any] = [None] * len(batch)
        todo = await self._by_owner(batch, range(len(batch)))
        for _ in range(MOVES_MAX):
            await self._send(batch, todo, answers)
            refused = [n for n, answer in enumerate(answers) if isinstance(answer, _ELSEWHERE)]
            if not refused:
                break
            for number in refused:
                answers[number] = await self._follow(answers[number], batch[number])
            again = [number for number in refused if isinstance(answers[number], _ELSEWHERE)]
            if any(isinstance(answers[number], redis.exceptions.TryAgainError) for number in again):
                await anyio.sleep(MOVE_PAUSE_S)
            todo = await self._by_owner(batch, again)
        return answers

    async def _by_owner(self, batch: Sequence[commands.Command], numbers: Iterable[int]) -> dict[HostPort, list[int]]:
        owners = self._owners or await self._find()
        found: dict[HostPort, list[int]] = {}
        for number in numbers:
            found.setdefault(owners[slot_of(batch[number])], []).append(number)
        return found

    async def _follow(self, error: redis.exceptions.ResponseError, call: commands.Command) -> Any:
        """The answer of another node, or the same error where the command has to be sent anew."""
        if isinstance(error, redis.exceptions.MovedError):
            await self._moved(error)
            return error
        if isinstance(error, redis.exceptions.AskError):
            return await self._asking(error, call)
        return error

    async def senders(self) -> list[SendBatch]:
        return [functools.partial(self._to, place) for place in await self._primaries()]

    async def tags(self) -> list[str]:
        await self._find()
        return [self._tag(self._owners.index(place)) for place in await self._primaries()]

    async def close(self) -> None:
        await self._pools.close()

    async def _primaries(self) -> list[HostPort]:
        return sorted(set(self._owners or await self._find()))

    async def _send(
        self, batch: Sequence[commands.Command], todo: dict[HostPort, list[int]], answers: list[Any]
    ) -> None:
        """To all owners at once. An outage of one is raised when the others have answered."""
        failed: list[BaseException] = []

        async def send(place: HostPort, numbers: list[int]) -> None:
            try:
                found = await self._to(place, [batch[number] for number in numbers])
            except OUTAGE_ERRORS as error:
                failed.append(error)
                return
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer

        if len(todo) == 1:
            [(place, numbers)] = todo.items()
            await send(place, numbers)
        else:
            async with anyio.create_task_group() as owners:
                for place, numbers in todo.items():
                    owners.start_soon(send, place, numbers)
        if failed:
            raise failed[0]

    async def _to(self, place: HostPort, batch: Sequence[commands.Command]) -> list[Any]:
        try:
            return await pipeline.exchange(self._pools.at(place), batch)
        except OUTAGE_ERRORS:
            # Whoever asks next asks around first: another node may own its slots by then.
            self._owners = []
            await self._pools.drop(place)
            raise

    async def _moved(self, error: redis.exceptions.MovedError) -> None:
        """A slot has a new owner. Others may have moved with it: the next command about them finds out."""
        owners = self._owners or await self._find()
        owners[int(error.slot_id)] = (error.host or self._where.hosts[0][0], int(error.port))

    async def _asking(self, error: redis.exceptions.AskError, call: commands.Command) -> Any:
        """Keys that have moved already, of a slot that has not."""
        place = (error.host or self._where.hosts[0][0], int(error.port))
        _, answer = await self._to(place, [("ASKING",), call])
        return answer

    async def _find(self) -> list[HostPort]:
        """Ask the nodes that we know, then those that the URL names, who owns what."""
        asked = []
        for place in dict.fromkeys((*self._owners, *self._where.hosts)):
            try:
                [answer] = await pipeline.exchange(self._pools.at(place), [("CLUSTER", "SLOTS")])
            except OUTAGE_ERRORS as error:
                asked.append(f"{place[0]}:{place[1]} says {error}")
                continue
            if isinstance(answer, Exception):
                asked.append(f"{place[0]}:{place[1]} says {answer}")
                continue
            owners: list[HostPort | None] = [None] * keys.SLOTS
            for first, last, primary, *_ in answer:
                owner = (primary[0].decode() or place[0], int(primary[1]))
                owners[int(first) : int(last) + 1] = [owner] * (int(last) - int(first) + 1)
            if None in owners:
                asked.append(f"{place[0]}:{place[1]} knows no owner of slot {owners.index(None)}")
                continue
            self._owners = [owner for owner in owners if owner is not None]
            return self._owners
        raise redis.exceptions.ConnectionError(f"no node of the Cluster knows its slots: {'; '.join(asked)}")

    def _tag(self, slot: int) -> str:
        """Some text in a slot."""
        if slot not in self._tags:
            number = 0
            while keys.key_slot(str(number)) != slot:
                number += 1
            self._tags[slot] = str(number)
        return self._tags[slot]


_SECOND_WORD: Final = frozenset({"XINFO", "XGROUP", "MEMORY", "OBJECT"})
_KEYLESS: Final = frozenset({"PING", "ECHO", "INFO", "FUNCTION", "TIME", "CONFIG", "ROLE", "CLUSTER", "ACL", "COMMAND"})


def slot_of(call: commands.Command) -> int:
    """The slot that a command is about. What is about none goes to the first."""
    name = call[0]
    if name == "FCALL":
        return keys.key_slot(_word(call[3])) if call[2] else 0
    if name in ("XREADGROUP", "XREAD"):
        return keys.key_slot(_word(call[call.index("STREAMS") + 1]))
    if name in _SECOND_WORD:
        return keys.key_slot(_word(call[2]))
    if name in _KEYLESS or len(call) == 1:
        return 0
    return keys.key_slot(_word(call[1]))


def _word(word: commands.Argument) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()
