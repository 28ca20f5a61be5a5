"""Reads control streams through a consumer group: requests in one lane, reports in another, so that neither waits.

A message is acknowledged after its effects. What is read and not acknowledged, by us or by a supervisor that died, is
read again; what can never be applied goes to the dead letters with its reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import msgspec

from rta_supervisor.control import entry as control_entry
from rta_supervisor.control import functions, takeover
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS, RETRIABLE_ERRORS, DataLost
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys

BLOCK_MS: Final = int(settings.CONTROL_BLOCK_S * 1000)
BLOCK_DEFERRED_MS: Final = 100
BLOCK_DIVIDED_MS: Final = 50
BLOCKS_PER_LEASE: Final = 20
OUTAGE_PAUSE_S: Final = 0.5
ACKNOWLEDGE_MAX: Final = 1000


class ConsumerCallbacks(msgspec.Struct, frozen=True):
    """What a lane tells the rest of the daemon."""

    on_data_loss: Callable[[str], Awaitable[None]]
    on_gap: Callable[[], Awaitable[None]]


class ControlConsumer:
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
        self._config = config
        self._lease_s = config.node.lease_s
        self._block_ms = min(BLOCK_MS, int(self._lease_s * 1000 / BLOCKS_PER_LEASE))
        self._keys = config.keys
        self._principals = {key_of(principal): principal for principal in principals or config.control.principals}
        self._log = log.get(lane=name)
        self._deferred: list[control_entry.ControlEntry] = []
        self.listening_since_ms = now_ms()
        """Since when nothing that was sent waits to be read: before that, silence is ours."""

    def note_outage(self) -> None:
        """Nobody could be heard until now: Redis was away, or so full that nobody could write."""
        self.listening_since_ms = now_ms()

    async def create_groups(self) -> None:
        """Make the groups, from the beginning of each stream: what was sent before we came counts too."""
        await self._link.do_all([functions.create_group(self._keys, key) for key in self._principals])

    async def run(
        self, consumer: str, handler: control_entry.Handler, hooks: ConsumerCallbacks, stopping: anyio.Event
    ) -> None:
        """Until `stopping` is set. An outage is waited out, and what was in flight is read again."""
        leftovers_first = True
        next_look_s = next_heir_s = 0.0
        ahead: list[control_entry.ControlEntry] = []
        while ahead or not stopping.is_set():
            loop_watch.report_alive()
            try:
                is_look_due = anyio.current_time() >= next_look_s
                if is_look_due and not ahead:
                    await self._claim_and_find_gaps(consumer, hooks)
                    leftovers_first = True
                    next_look_s = anyio.current_time() + self._config.control.retry_s
                if anyio.current_time() >= next_heir_s and not ahead:
                    leftovers_first |= await self._take_over(consumer)
                    next_heir_s = anyio.current_time() + self._lease_s / leases.LOOKS_PER_LEASE
                if leftovers_first:
                    self._deferred = []
                    await self._process_pending(consumer, handler)
                    leftovers_first = False
                entries = ahead or [*self._deferred, *await self._read_new(consumer)]
                ahead = []
                if self._is_backlog(entries) and not is_look_due and not stopping.is_set():
                    ahead = await self._process_and_prefetch(entries, consumer, handler)
                else:
                    await self._process(entries, handler)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._link.outage_log.log_failure(error)
                self.note_outage()
                leftovers_first = True
                await anyio.sleep(OUTAGE_PAUSE_S)
            except DataLost as error:
                await hooks.on_data_loss(str(error))
                leftovers_first = True

    async def _claim_and_find_gaps(self, consumer: str, hooks: ConsumerCallbacks) -> None:
        """Take over what others left, and notice what was evicted before anybody read it."""
        lost = 0
        for key in self._principals:
            await self._claim(key, consumer)
            lost += await self._report_gap(key)
        if lost:
            await hooks.on_gap()

    async def _take_over(self, consumer: str) -> bool:
        """Take over what the dead have left. Whether that was something."""
        count = 0
        for key in self._principals:
            count += await takeover.take_over(self._link, self._keys, key, consumer, lease_s=self._lease_s)
        if count:
            self._log.info("messages_inherited", count=count)
        return count > 0

    async def _claim(self, key: str, consumer: str) -> None:
        start: str | bytes = "0-0"
        idle_ms = int(self._config.control.retry_s * 1000)
        while True:
            start, claimed, *_ = await self._link.do(
                *("XAUTOCLAIM", key, keys.CONTROL_GROUP, consumer, idle_ms, start),
                *("COUNT", self._config.control.batch, "JUSTID"),
            )
            if claimed:
                counters.counts.redelivered += len(claimed)
                self._log.info("messages_claimed", stream=key, count=len(claimed))
            if start == b"0-0":
                return

    async def _report_gap(self, key: str) -> int:
        """Redis skips what was evicted without a word: say it, with its count."""
        count: int = await self._link.do(*functions.count_evicted(self._keys, key))
        if count:
            counters.counts.evicted += count
            self._log.error("messages_evicted", stream=key, count=count)
        return count

    async def _process_pending(self, consumer: str, handler: control_entry.Handler) -> None:
        """What we or a dead supervisor read and did not acknowledge."""
        after = dict.fromkeys(self._principals, "0")
        while entries := await self._read(consumer, after, is_first_delivery=False):
            after |= {entry.key: entry.id for entry in entries}
            deferred = self._deferred
            await self._process(entries, handler)
            self._deferred = [*deferred, *self._deferred]

    async def _read_new(self, consumer: str) -> list[control_entry.ControlEntry]:
        if len(self._deferred) >= self._config.control.max_unacknowledged:
            await anyio.sleep(BLOCK_DEFERRED_MS / 1000)
            return []
        block_ms = BLOCK_DEFERRED_MS if self._deferred else self._block_ms
        return await self._gather(consumer, block_ms=block_ms)

    async def _gather(self, consumer: str, *, block_ms: int | None = None) -> list[control_entry.ControlEntry]:
        """New messages, a batch or more of them."""
        new = dict.fromkeys(self._principals, ">")
        entries = part = await self._read(consumer, new, is_first_delivery=True, block_ms=block_ms)
        while len(part) >= self._config.control.batch:
            self.listening_since_ms = now_ms()
            if len(entries) >= self._gather_max:
                break
            part = await self._read(consumer, new, is_first_delivery=True)
            entries += part
        return entries

    def _is_backlog(self, entries: Sequence[control_entry.ControlEntry]) -> bool:
        return self._is_gathering and not self._deferred and len(entries) >= self._gather_max

    async def _process_and_prefetch(
        self, entries: Sequence[control_entry.ControlEntry], consumer: str, handler: control_entry.Handler
    ) -> list[control_entry.ControlEntry]:
        """Where much is waiting, Redis gets the next ready while we work. Either failing ends both."""
        ahead: list[control_entry.ControlEntry] = []

        async def read() -> None:
            ahead.extend(await self._gather(consumer))

        try:
            async with anyio.create_task_group() as both:
                both.start_soon(read, name=f"{self.name}-ahead")
                await self._process(entries, handler)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return ahead

    async def _read(
        self, consumer: str, after: dict[str, str], *, is_first_delivery: bool, block_ms: int | None = None
    ) -> list[control_entry.ControlEntry]:
        if self._link.spans_slots(after):
            answer = await self._read_each(consumer, after, block_ms)
        else:
            answer = await self._link.do(*self._read_call(consumer, after, block_ms))
        return [
            control_entry.ControlEntry(
                name, self._principals[name], id_.decode(), control_entry.message_of(fields), is_first_delivery
            )
            for key, entries in answer or ()
            for name in (key.decode(),)
            for id_, fields in entries
        ]

    def _read_call(self, consumer: str, after: dict[str, str], block_ms: int | None) -> commands.Command:
        wait = () if block_ms is None else ("BLOCK", block_ms)
        return (
            *("XREADGROUP", "GROUP", keys.CONTROL_GROUP, consumer, "COUNT", self._config.control.batch, *wait),
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

    async def _process(self, entries: Sequence[control_entry.ControlEntry], handler: control_entry.Handler) -> None:
        if not entries:
            return
        try:
            done = await handler.handle(entries)
        except RETRIABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            if len(entries) > 1:
                # One of them is poison, and the others shall not suffer for it.
                deferred: list[control_entry.ControlEntry] = []
                for entry in entries:
                    await self._process([entry], handler)
                    deferred += self._deferred
                self._deferred = deferred
                return
            self._log.exception("message_poisonous", entry=entries[0].id)
            await handler.refuse(entries[0], errors.PoisonousMessage(reason=f"{type(error).__name__}: {error}"))
            done = control_entry.BatchResult(entries)
        self._deferred = [msgspec.structs.replace(entry, is_first_delivery=False) for entry in done.deferred]
        await self._acknowledge(done.handled)

    async def _acknowledge(self, entries: Sequence[control_entry.ControlEntry]) -> None:
        """In parts, so that Redis serves others in between."""
        handled: dict[str, list[str]] = {}
        for entry in entries:
            handled.setdefault(entry.key, []).append(entry.id)
        await self._link.do_all(
            [
                functions.acknowledge(self._keys, key, page)
                for key, ids in handled.items()
                for page in paging.pages(ids, ACKNOWLEDGE_MAX)
            ]
        )
