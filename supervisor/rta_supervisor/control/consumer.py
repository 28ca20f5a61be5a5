"""Reads control streams through a consumer group: requests in one lane, reports in another, so that neither waits.

A message is acknowledged after its effects. What is read and not acknowledged, by us or by a supervisor that died, is
read again; what can never be applied goes to the dead letters with its reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import anyio
import msgspec

from rta_supervisor.control import takeover
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.time_sync import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import DataLost, Link, Outage, Refusal, Trouble, pairs
from rta_wire import errors, keys, limits

BLOCK_MS: Final = int(settings.READ_WAITS_S * 1000)
BLOCK_DEFERRED_MS: Final = 100
BLOCK_DIVIDED_MS: Final = 50
BLOCKS_PER_LEASE: Final = 20
OUTAGE_PAUSE_S: Final = 0.5
ACKNOWLEDGE_MAX: Final = 1000


class Entry(msgspec.Struct, frozen=True):
    """One message as it stands in a control stream. The stream says who wrote it."""

    key: str
    principal: str
    id: str
    raw: bytes | None
    is_fresh: bool
    """Read for the first time. Otherwise it waits for something, or another supervisor left it."""

    @property
    def sent_ms(self) -> int:
        return int(self.id.partition("-")[0])


class Done(msgspec.Struct, frozen=True):
    """What became of a batch: entries to acknowledge, and others that have to wait for something."""

    handled: Sequence[Entry]
    deferred: Sequence[Entry] = ()


class Handler(Protocol):
    """What a lane does with messages."""

    async def handle(self, entries: Sequence[Entry]) -> Done: ...

    async def refuse(self, entry: Entry, error: errors.RtaError) -> None:
        """Tell everybody whom it concerns that a message can't be handled."""


class Hooks(msgspec.Struct, frozen=True):
    """What a lane tells the rest of the daemon."""

    on_data_loss: Callable[[str], Awaitable[None]]
    on_gap: Callable[[], Awaitable[None]]


class Lane:
    """One lane for all principals."""

    def __init__(
        self,
        name: str,
        key_of: Callable[[str], str],
        link: Link,
        config: settings.Settings,
        *,
        principals: Sequence[str] = (),
        gather_batches: int = 1,
    ) -> None:
        """`principals`: who has such a lane, else those of the settings.

        `gather_batches`: how many batches to handle as one where much is waiting, if that makes them cheaper."""
        self.name = name
        self._gather_max = gather_batches * config.control.batch
        self._is_gathering = gather_batches > 1
        self._link = link
        self._config = config.control
        self._lease_s = config.node.lease_s
        self._block_ms = min(BLOCK_MS, int(self._lease_s * 1000 / BLOCKS_PER_LEASE))
        self._keys = config.keys
        self._principals = {key_of(principal): principal for principal in principals or config.control.principals}
        self._log = log.get(lane=name)
        self._deferred: list[Entry] = []
        self.listening_since_ms = now_ms()
        """Since when nothing that was sent waits to be read: before that, silence is ours."""

    def note_silence(self) -> None:
        """Nobody could be heard until now: Redis was away, or so full that nobody could write."""
        self.listening_since_ms = now_ms()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = msgspec.structs.replace(config.control, batch=self._config.batch)

    async def prepare(self) -> None:
        """Make the groups, from the beginning of each stream: what was sent before we came counts too."""
        await self._link.do_all([commands.begin_lane(self._keys, key) for key in self._principals])

    async def run(self, consumer: str, handler: Handler, hooks: Hooks, stopping: anyio.Event) -> None:
        """Until `stopping` is set. An outage is waited out, and what was in flight is read again."""
        leftovers_first = True
        next_look_s = next_heir_s = 0.0
        ahead: list[Entry] = []
        while ahead or not stopping.is_set():
            loop_watch.step()
            try:
                is_look_due = anyio.current_time() >= next_look_s
                if is_look_due and not ahead:
                    await self._look_around(consumer, hooks)
                    leftovers_first = True
                    next_look_s = anyio.current_time() + self._config.retry_s
                if anyio.current_time() >= next_heir_s and not ahead:
                    leftovers_first |= await self._inherit(consumer)
                    next_heir_s = anyio.current_time() + self._lease_s / leases.LOOKS_PER_LEASE
                if leftovers_first:
                    self._deferred = []
                    await self._work_off_leftovers(consumer, handler)
                    leftovers_first = False
                entries = ahead or [*self._deferred, *await self._read_new(consumer)]
                ahead = []
                if self._is_backlog(entries) and not is_look_due and not stopping.is_set():
                    ahead = await self._work_and_read(entries, consumer, handler)
                else:
                    await self._work(entries, handler)
            except (*Outage, *Refusal) as error:
                self._link.complaints.note(error)
                self.note_silence()
                leftovers_first = True
                await anyio.sleep(OUTAGE_PAUSE_S)
            except DataLost as error:
                await hooks.on_data_loss(str(error))
                leftovers_first = True

    async def _look_around(self, consumer: str, hooks: Hooks) -> None:
        """Take over what others left, and notice what was evicted before anybody read it."""
        lost = 0
        for key in self._principals:
            await self._claim(key, consumer)
            lost += await self._report_gap(key)
        if lost:
            await hooks.on_gap()

    async def _inherit(self, consumer: str) -> bool:
        """Take over what the dead have left. Whether that was something."""
        count = 0
        for key in self._principals:
            count += await takeover.inherit(self._link, self._keys, key, consumer, lease_s=self._lease_s)
        if count:
            self._log.info("messages_inherited", count=count)
        return count > 0

    async def _claim(self, key: str, consumer: str) -> None:
        start: str | bytes = "0-0"
        idle_ms = int(self._config.retry_s * 1000)
        while True:
            start, claimed, *_ = await self._link.do(
                *("XAUTOCLAIM", key, keys.CONTROL_GROUP, consumer, idle_ms, start),
                *("COUNT", self._config.batch, "JUSTID"),
            )
            if claimed:
                counters.counts.redelivered += len(claimed)
                self._log.info("messages_claimed", stream=key, count=len(claimed))
            if start == b"0-0":
                return

    async def _report_gap(self, key: str) -> int:
        """Redis skips what was evicted without a word: say it, with its count."""
        count: int = await self._link.do(*commands.missing_in_lane(self._keys, key))
        if count:
            counters.counts.evicted += count
            self._log.error("messages_evicted", stream=key, count=count)
        return count

    async def _work_off_leftovers(self, consumer: str, handler: Handler) -> None:
        """What we or a dead supervisor read and did not acknowledge."""
        after = dict.fromkeys(self._principals, "0")
        while entries := await self._read(consumer, after, is_fresh=False):
            after |= {entry.key: entry.id for entry in entries}
            deferred = self._deferred
            await self._work(entries, handler)
            self._deferred = [*deferred, *self._deferred]

    async def _read_new(self, consumer: str) -> list[Entry]:
        if len(self._deferred) >= self._config.max_unacknowledged:
            await anyio.sleep(BLOCK_DEFERRED_MS / 1000)
            return []
        block_ms = BLOCK_DEFERRED_MS if self._deferred else self._block_ms
        return await self._gather(consumer, block_ms=block_ms)

    async def _gather(self, consumer: str, *, block_ms: int | None = None) -> list[Entry]:
        """New messages, a batch or more of them."""
        new = dict.fromkeys(self._principals, ">")
        entries = part = await self._read(consumer, new, is_fresh=True, block_ms=block_ms)
        while len(part) >= self._config.batch:
            self.listening_since_ms = now_ms()
            if len(entries) >= self._gather_max:
                break
            part = await self._read(consumer, new, is_fresh=True)
            entries += part
        return entries

    def _is_backlog(self, entries: Sequence[Entry]) -> bool:
        return self._is_gathering and not self._deferred and len(entries) >= self._gather_max

    async def _work_and_read(self, entries: Sequence[Entry], consumer: str, handler: Handler) -> list[Entry]:
        """Where much is waiting, Redis gets the next ready while we work. Either failing ends both."""
        ahead: list[Entry] = []

        async def read() -> None:
            ahead.extend(await self._gather(consumer))

        try:
            async with anyio.create_task_group() as both:
                both.start_soon(read, name=f"{self.name}-ahead")
                await self._work(entries, handler)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return ahead

    async def _read(
        self, consumer: str, after: dict[str, str], *, is_fresh: bool, block_ms: int | None = None
    ) -> list[Entry]:
        if self._link.is_divided(after):
            answer = await self._read_each(consumer, after, block_ms)
        else:
            answer = await self._link.do(*self._read_call(consumer, after, block_ms))
        return [
            Entry(name, self._principals[name], id_.decode(), _message(fields), is_fresh)
            for key, entries in answer or ()
            for name in (key.decode(),)
            for id_, fields in entries
        ]

    def _read_call(self, consumer: str, after: dict[str, str], block_ms: int | None) -> commands.Call:
        wait = () if block_ms is None else ("BLOCK", block_ms)
        return (
            *("XREADGROUP", "GROUP", keys.CONTROL_GROUP, consumer, "COUNT", self._config.batch, *wait),
            *("STREAMS", *after.keys(), *after.values()),
        )

    async def _read_each(self, consumer: str, after: dict[str, str], block_ms: int | None) -> list[Any]:
        """Control streams in different slots: one command for each, and short waits, since all wait for the longest."""
        block_ms = None if block_ms is None else min(block_ms, BLOCK_DIVIDED_MS)
        found: list[Any] = []

        async def read(key: str, last: str) -> None:
            found.extend(await self._link.do(*self._read_call(consumer, {key: last}, block_ms)) or ())

        try:
            async with anyio.create_task_group() as readers:
                for key, last in after.items():
                    readers.start_soon(read, key, last)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return found

    async def _work(self, entries: Sequence[Entry], handler: Handler) -> None:
        if not entries:
            return
        try:
            done = await handler.handle(entries)
        except Trouble:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            if len(entries) > 1:
                # One of them is poison, and the others shall not suffer for it.
                deferred: list[Entry] = []
                for entry in entries:
                    await self._work([entry], handler)
                    deferred += self._deferred
                self._deferred = deferred
                return
            self._log.exception("message_poisonous", entry=entries[0].id)
            await handler.refuse(entries[0], errors.PoisonousMessage(reason=f"{type(error).__name__}: {error}"))
            done = Done(entries)
        self._deferred = [msgspec.structs.replace(entry, is_fresh=False) for entry in done.deferred]
        await self._acknowledge(done.handled)

    async def _acknowledge(self, entries: Sequence[Entry]) -> None:
        """In parts, so that Redis serves others in between."""
        handled: dict[str, list[str]] = {}
        for entry in entries:
            handled.setdefault(entry.key, []).append(entry.id)
        await self._link.do_all(
            [
                commands.settle_in_lane(self._keys, key, ids[at : at + ACKNOWLEDGE_MAX])
                for key, ids in handled.items()
                for at in range(0, len(ids), ACKNOWLEDGE_MAX)
            ]
        )

    async def bury(self, entry: Entry, error: errors.RtaError) -> None:
        """Put a message that can't be applied where a person can look at it."""
        counters.counts.dead_letters[type(error).__name__] += 1
        self._log.warning("message_refused", entry=entry.id, principal=entry.principal, reason=str(error))
        words: tuple[commands.Word, ...] = (
            *("source", entry.key, "entry", entry.id, "code", type(error).__name__, "reason", str(error)),
            *("m", (entry.raw or b"")[: limits.CONTROL_MAX_BYTES]),
        )
        await self._link.do(
            "XADD", self._keys.dead_letters(), "MAXLEN", "~", self._config.dead_letters_max, "*", *words
        )


def _message(fields: Sequence[bytes] | None) -> bytes | None:
    """The one field that an entry of a control stream has. An entry that was deleted has none."""
    if fields is not None and len(fields) == 2 and fields[0] == keys.CONTROL_FIELD:
        return fields[1]
    return pairs(fields or ()).get(keys.CONTROL_FIELD)
