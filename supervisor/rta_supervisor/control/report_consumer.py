"""Consumes the reports of all principals, a batch at a time. A flood of one principal fills at most its share of each
batch, so that the reports of others are folded as soon as before.

A report is acknowledged after its effects. What is read and not acknowledged, by us or by a supervisor that died, is
read again; what can never be handled goes to the dead letters with its reason.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import anyio

from rta_supervisor.control.control_streams import ConsumerCallbacks, ControlStreams
from rta_supervisor.control.entry import BatchHandler, ControlEntry
from rta_supervisor.control.read_size import READ_TARGET_BYTES
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS, RETRIABLE_ERRORS, DataLost
from rta_supervisor.transport.outage_log import OutageLog
from rta_wire import entry_ids, errors

OUTAGE_PAUSE_S: Final = 0.5

GATHER_BATCHES: Final = 5
"""Batches that are handled as one: reports of a unit are merged, so the more at once, the less they cost."""

GATHER_S: Final = 0.1
"""How long it may take to handle what was gathered, by what the reports before it took: later ones wait for it."""


class ReportConsumer:
    """Reads the reports of all principals, and gives them to a handler in batches."""

    def __init__(self, streams: ControlStreams, config: settings.Settings, outage_log: OutageLog) -> None:
        self.streams = streams
        self._config = config
        self._outage_log = outage_log
        self._lease_s = config.node.lease_s
        self._gather_max = GATHER_BATCHES * config.control.batch
        self._seconds_per_report = 0.0
        self._busy_streams = 1
        self._is_page_full = False
        """Whether there may be more than the last read gave."""
        self._log = log.get(lane=streams.kind)
        self.listening_since_ms = now_ms()
        """Since when every message that is sent is read without delay: before that, silence proves nothing."""

    def note_outage(self) -> None:
        """Note that no message could be sent or read until now: Redis was away, or full."""
        self.listening_since_ms = now_ms()

    async def run(self, handler: BatchHandler, callbacks: ConsumerCallbacks, stopping: anyio.Event) -> None:
        """Handle messages until `stopping` is set. An outage is waited out; what it interrupted is read again."""
        is_pending_due = True
        next_claim_s = next_takeover_s = 0.0
        prefetched: list[ControlEntry] = []
        while prefetched or not stopping.is_set():
            loop_watch.report_alive()
            try:
                is_claim_due = anyio.current_time() >= next_claim_s
                if is_claim_due and not prefetched:
                    await self.streams.takeover.claim_idle()
                    if principals := await self.streams.report_gaps():
                        callbacks.on_gap(principals)
                    is_pending_due = True
                    next_claim_s = anyio.current_time() + self._config.control.retry_s
                if anyio.current_time() >= next_takeover_s and not prefetched:
                    is_pending_due |= bool(await self.streams.takeover.claim_from_dead())
                    next_takeover_s = anyio.current_time() + self._lease_s / leases.LOOKS_PER_LEASE
                if is_pending_due:
                    await self._handle_pending(handler)
                    is_pending_due = False
                entries = prefetched or await self._gather(block_ms=self.streams.block_ms)
                prefetched = []
                if len(entries) >= self._gather_max and not is_claim_due and not stopping.is_set():
                    prefetched = await self._handle_and_prefetch(entries, handler)
                else:
                    await self._handle(entries, handler)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._outage_log.log_failure(error)
                self.note_outage()
                is_pending_due = True
                await anyio.sleep(OUTAGE_PAUSE_S)
            except DataLost as error:
                await callbacks.on_data_loss(str(error))
                is_pending_due = True

    async def _handle_pending(self, handler: BatchHandler) -> None:
        """Handle what we or a dead supervisor read and did not acknowledge."""
        after = dict.fromkeys(self.streams.principals, entry_ids.MIN)
        batch = self._config.control.batch
        while entries := await self.streams.read_pending(after, count=self.streams.fitting(after, batch)):
            after |= {entry.key: entry.id for entry in entries}
            await self._handle(entries, handler)

    async def _gather(self, *, block_ms: int | None = None) -> list[ControlEntry]:
        """New messages: one batch, or several where many are waiting. Busy streams have equal shares of a batch."""
        entries = await self._read_page(block_ms)
        while self._is_page_full:
            self.listening_since_ms = now_ms()
            if len(entries) >= self._gather_max or sum(entry.read_bytes for entry in entries) >= READ_TARGET_BYTES:
                break
            if len(entries) * self._seconds_per_report > GATHER_S:
                break
            entries += await self._read_page(None)
        return entries

    async def _read_page(self, block_ms: int | None) -> list[ControlEntry]:
        keys = self.streams.principals
        share = self.streams.fitting(keys, max(1, self._config.control.batch // self._busy_streams))
        page = await self.streams.read_new(keys, count=share, block_ms=block_ms)
        counts = Counter(entry.key for entry in page)
        self._busy_streams = max(1, len(counts))
        self._is_page_full = max(counts.values(), default=0) >= share
        return page

    async def _handle_and_prefetch(self, entries: Sequence[ControlEntry], handler: BatchHandler) -> list[ControlEntry]:
        """Handle entries while the next ones are read. Either failing ends both."""
        prefetched: list[ControlEntry] = []

        async def prefetch() -> None:
            prefetched.extend(await self._gather())

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prefetch, name=f"{self.streams.kind}-ahead")
                await self._handle(entries, handler)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return prefetched

    async def _handle(self, entries: Sequence[ControlEntry], handler: BatchHandler) -> None:
        """Handle entries and acknowledge them. One that is poison goes to the dead letters alone."""
        if not entries:
            return
        started_s = anyio.current_time()
        try:
            await handler.handle(entries)
            self._seconds_per_report = (anyio.current_time() - started_s) / len(entries)
        except RETRIABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            if len(entries) > 1:
                # One of them is poison: it is looked for by halves, so that the others are handled.
                half = len(entries) // 2
                await self._handle(entries[:half], handler)
                await self._handle(entries[half:], handler)
                return
            self._log.exception("message_poisonous", entry=entries[0].id)
            await handler.refuse(entries[0], errors.PoisonousMessage(reason=f"{type(error).__name__}: {error}"))
        await self.streams.acknowledge(entries)
