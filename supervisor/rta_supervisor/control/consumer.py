"""Consumes control streams of one kind, requests or reports, through a consumer group. Each kind has a consumer of its
own, so that neither waits for the other.

A message is acknowledged after its effects. What is read and not acknowledged, by us or by a supervisor that died, is
read again; what can never be handled goes to the dead letters with its reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import msgspec

from rta_supervisor.control import server_functions
from rta_supervisor.control.entry import BatchResult, ControlEntry, Handler, message_in
from rta_supervisor.control.read_size import READ_TARGET_BYTES, ReadSize
from rta_supervisor.control.takeover import Takeover
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
BLOCK_SEPARATE_MS: Final = 50
BLOCKS_PER_LEASE: Final = 20
OUTAGE_PAUSE_S: Final = 0.5
ACKNOWLEDGE_MAX: Final = 1000


class ConsumerCallbacks(msgspec.Struct, frozen=True):
    """What a consumer calls when Redis lost data, or evicted messages before they were read."""

    on_data_loss: Callable[[str], Awaitable[None]]
    on_gap: Callable[[], Awaitable[None]]


class ControlConsumer:
    """Reads the control streams of one kind of all principals, and gives their messages to a handler."""

    def __init__(
        self,
        kind: str,
        control_streams: dict[str, str],
        link: Link,
        config: settings.Settings,
        consumer: str,
        *,
        gather_batches: int = 1,
    ) -> None:
        """`kind`: `requests` or `reports`. `control_streams`: principals by the key of their control stream.
        `consumer`: the name of this supervisor in the consumer group.

        `gather_batches`: how many batches are handled as one where many messages wait, if that makes them cheaper.
        """
        self.kind = kind
        self._control_streams = control_streams
        self._consumer = consumer
        self._gather_max = gather_batches * config.control.batch
        self._is_gathering = gather_batches > 1
        self._link = link
        self._config = config
        self._lease_s = config.node.lease_s
        self._block_ms = min(BLOCK_MS, int(self._lease_s * 1000 / BLOCKS_PER_LEASE))
        self._are_separate = link.spans_slots(control_streams)
        self._keys = config.keys
        self._takeover = Takeover(link, config, list(control_streams), consumer, kind=kind)
        self._log = log.get(lane=kind)
        self._deferred: list[ControlEntry] = []
        self._read_size = ReadSize()
        self.listening_since_ms = now_ms()
        """Since when every message that is sent is read without delay: before that, silence proves nothing."""

    def note_outage(self) -> None:
        """Note that no message could be sent or read until now: Redis was away, or full."""
        self.listening_since_ms = now_ms()

    async def create_groups(self) -> None:
        """Create the consumer groups at the beginning of each stream: what was sent before counts too."""
        await self._link.do_all([server_functions.create_group(self._keys, key) for key in self._control_streams])

    async def run(self, handler: Handler, callbacks: ConsumerCallbacks, stopping: anyio.Event) -> None:
        """Handle messages until `stopping` is set. An outage is waited out; what it interrupted is read again."""
        is_pending_due = True
        next_claim_s = next_takeover_s = 0.0
        prefetched: list[ControlEntry] = []
        while prefetched or not stopping.is_set():
            loop_watch.report_alive()
            try:
                is_claim_due = anyio.current_time() >= next_claim_s
                if is_claim_due and not prefetched:
                    await self._takeover.claim_idle()
                    await self._report_gaps(callbacks)
                    is_pending_due = True
                    next_claim_s = anyio.current_time() + self._config.control.retry_s
                if anyio.current_time() >= next_takeover_s and not prefetched:
                    is_pending_due |= await self._takeover.claim_from_dead()
                    next_takeover_s = anyio.current_time() + self._lease_s / leases.LOOKS_PER_LEASE
                if is_pending_due:
                    self._deferred = []
                    await self._handle_pending(handler)
                    is_pending_due = False
                entries = prefetched or [*self._deferred, *await self._read_new()]
                prefetched = []
                if self._is_backlog(entries) and not is_claim_due and not stopping.is_set():
                    prefetched = await self._handle_and_prefetch(entries, handler)
                else:
                    await self._handle(entries, handler)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._link.outage_log.log_failure(error)
                self.note_outage()
                is_pending_due = True
                await anyio.sleep(OUTAGE_PAUSE_S)
            except DataLost as error:
                await callbacks.on_data_loss(str(error))
                is_pending_due = True

    async def _report_gaps(self, callbacks: ConsumerCallbacks) -> None:
        """Report messages that were evicted before anybody read them: Redis skips them without a word."""
        has_gap = False
        for key in self._control_streams:
            if count := await self._link.do(*server_functions.count_evicted(self._keys, key)):
                has_gap = True
                counters.counts.evicted += count
                self._log.error("messages_evicted", stream=key, count=count)
        if has_gap:
            await callbacks.on_gap()

    async def _handle_pending(self, handler: Handler) -> None:
        """Handle what we or a dead supervisor read and did not acknowledge."""
        after = dict.fromkeys(self._control_streams, "0")
        while entries := await self._read(after, is_first_delivery=False):
            after |= {entry.key: entry.id for entry in entries}
            deferred = self._deferred
            await self._handle(entries, handler)
            self._deferred = [*deferred, *self._deferred]

    async def _read_new(self) -> list[ControlEntry]:
        """New messages; none while too many are deferred."""
        if len(self._deferred) >= self._config.control.max_unacknowledged:
            await anyio.sleep(BLOCK_DEFERRED_MS / 1000)
            return []
        return await self._gather(block_ms=BLOCK_DEFERRED_MS if self._deferred else self._block_ms)

    async def _gather(self, *, block_ms: int | None = None) -> list[ControlEntry]:
        """New messages: one batch, or several where many are waiting."""
        new = dict.fromkeys(self._control_streams, ">")
        count = self._read_size.count(self._config.control.batch)
        entries = batch = await self._read(new, is_first_delivery=True, block_ms=block_ms)
        while len(batch) >= count:
            self.listening_since_ms = now_ms()
            if len(entries) >= self._gather_max or sum(_sizes(entries)) >= READ_TARGET_BYTES:
                break
            count = self._read_size.count(self._config.control.batch)
            batch = await self._read(new, is_first_delivery=True)
            entries += batch
        return entries

    def _is_backlog(self, entries: Sequence[ControlEntry]) -> bool:
        return self._is_gathering and not self._deferred and len(entries) >= self._gather_max

    async def _handle_and_prefetch(self, entries: Sequence[ControlEntry], handler: Handler) -> list[ControlEntry]:
        """Handle entries while the next ones are read. Either failing ends both."""
        prefetched: list[ControlEntry] = []

        async def prefetch() -> None:
            prefetched.extend(await self._gather())

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prefetch, name=f"{self.kind}-ahead")
                await self._handle(entries, handler)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return prefetched

    async def _read(
        self, after: dict[str, str], *, is_first_delivery: bool, block_ms: int | None = None
    ) -> list[ControlEntry]:
        """Entries after an id of each control stream, or after `>`: those that nobody in the group has read."""
        if self._are_separate:
            replies = await self._read_each(after, block_ms)
        else:
            replies = await self._link.do(*self._read_command(after, block_ms))
        read = [
            ControlEntry(key, self._control_streams[key], id_.decode(), message_in(fields), is_first_delivery)
            for raw_key, entries in replies or ()
            for key in (raw_key.decode(),)
            for id_, fields in entries
        ]
        self._read_size.note(_sizes(read), self._config.control.batch)
        return read

    def _read_command(self, after: dict[str, str], block_ms: int | None) -> commands.Command:
        wait = () if block_ms is None else ("BLOCK", block_ms)
        count = self._read_size.count(self._config.control.batch)
        return (
            *("XREADGROUP", "GROUP", keys.CONTROL_GROUP, self._consumer, "COUNT", count, *wait),
            *("STREAMS", *after.keys(), *after.values()),
        )

    async def _read_each(self, after: dict[str, str], block_ms: int | None) -> list[Any]:
        """Read control streams in different slots: one command for each. They block shortly, since all wait for the
        longest."""
        block_ms = None if block_ms is None else min(block_ms, BLOCK_SEPARATE_MS)
        replies: list[Any] = []

        async def read(key: str, last_id: str) -> None:
            replies.extend(await self._link.do(*self._read_command({key: last_id}, block_ms)) or ())

        try:
            async with anyio.create_task_group() as tasks:
                for key, last_id in after.items():
                    tasks.start_soon(read, key, last_id)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return replies

    async def _handle(self, entries: Sequence[ControlEntry], handler: Handler) -> None:
        """Handle entries, acknowledge those that are done, and keep those that are deferred."""
        if not entries:
            return
        try:
            result = await handler.handle(entries)
        except RETRIABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            if len(entries) > 1:
                # One of them is poison: each is handled alone, so that the others are served.
                deferred: list[ControlEntry] = []
                for entry in entries:
                    await self._handle([entry], handler)
                    deferred += self._deferred
                self._deferred = deferred
                return
            self._log.exception("message_poisonous", entry=entries[0].id)
            await handler.refuse(entries[0], errors.PoisonousMessage(reason=f"{type(error).__name__}: {error}"))
            result = BatchResult(entries)
        self._deferred = [msgspec.structs.replace(entry, is_first_delivery=False) for entry in result.deferred]
        await self._acknowledge(result.handled)

    async def _acknowledge(self, entries: Sequence[ControlEntry]) -> None:
        """Acknowledge in pages, so that Redis serves others in between."""
        ids_by_key: dict[str, list[str]] = {}
        for entry in entries:
            ids_by_key.setdefault(entry.key, []).append(entry.id)
        await self._link.do_all(
            [
                server_functions.acknowledge(self._keys, key, page)
                for key, ids in ids_by_key.items()
                for page in paging.pages(ids, ACKNOWLEDGE_MAX)
            ]
        )


def _sizes(entries: Sequence[ControlEntry]) -> list[int]:
    return [len(entry.raw or b"") for entry in entries]
