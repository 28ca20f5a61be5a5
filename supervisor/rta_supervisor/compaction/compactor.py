"""The compaction duty: finds streams that are cold, and moves them one at a time and not too fast. How one stream is
moved is in `mover`.

A stream is cold when no session in it is open and nothing was added to it for `after_s`. It may be used again at any
moment: what is added then stays live above what is cold.
"""

from collections.abc import Awaitable
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import StorageLocation
from rta_supervisor.compaction.cold_trimmer import ColdTrimmer
from rta_supervisor.compaction.hourly_limit import HourlyLimit
from rta_supervisor.compaction.mover import MoveResult, StreamMover
from rta_supervisor.compaction.repair import ColdRepair
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys

PAUSE_MAX_S: Final = 10.0
"""Longer waits are divided into pieces of this length, after each of which the loop reports that it is alive."""


class Compactor:
    """Sweeps over all streams that sessions used."""

    def __init__(self, link: Link, sessions: SessionStore, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._config = config
        self._cold_trimmer = ColdTrimmer(link, config)
        self._turns: periodic.DutyTurns = periodic.UNLEASED
        self._hourly_limit = HourlyLimit()
        self._log = log.get(duty="compact")

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sweep every `compact.every_s` until cancelled. What is interrupted goes on in the next sweep."""
        self._turns = turns
        await periodic.in_turns(turns, lambda: self._config.compact.every_s, self._sweep_in_turn, self._link.outage_log)

    async def _sweep_in_turn(self, until_ms: int | None) -> None:
        if until_ms is None:
            return
        try:
            await self.sweep(until_ms)
        except leases.LeaseExpired:
            self._log.info("compaction_interrupted")

    async def sweep(self, until_ms: int = commands.FOREVER) -> dict[str, MoveResult]:
        """Look at every stream once. Returns what was moved, by stream."""
        await self._index_unindexed()
        await self._cold_trimmer.sweep(until_ms)
        moved: dict[str, MoveResult] = {}
        if not self._config.compact.after_s:
            return moved
        for stream in await self._unused_streams():
            loop_watch.report_alive()
            if await self._is_paused() or not self._may_begin():
                break
            store = CompactionStore(self._link, self._config.keys, stream)
            last_id = await self._last_id_to_move(store)
            if last_id is None:
                continue
            self._hourly_limit.note_begin(anyio.current_time())
            result = await self._attempt(stream, self._compact(store, last_id))
            if result is not None and result.entries:
                moved[stream] = result
        return moved

    async def _attempt(self, stream: str, work: Awaitable[MoveResult]) -> MoveResult | None:
        """The result of the work on one stream. None: it failed, which keeps no other stream from being compacted."""
        try:
            return await work
        except (errors.BadBatch, errors.ColdDiffers, errors.TooLargeForBatch, redis.exceptions.ResponseError) as error:
            counters.counts.compactions["failed"] += 1
            self._log.error("stream_not_compacted", stream=stream, error=str(error))
        return None

    async def _compact(self, store: CompactionStore, last_id: str) -> MoveResult:
        mover = StreamMover(store, self._config.compact.options)
        result = await mover.run(last_id, self._permit_batch, self._slow_down)
        if result.entries:
            counters.counts.compactions["done"] += 1
            self._log.info(
                "stream_compacted",
                stream=store.stream,
                entries=result.entries,
                batches=result.batches,
                live_bytes=result.live_bytes,
                cold_bytes=result.size_bytes,
                raw_bytes=result.raw_bytes,
            )
            await self._record_location(store)
        return result

    async def _record_location(self, store: CompactionStore) -> None:
        """Write to the catalogue what is cold, for people who look for it. Readers go by the index."""
        extent = await store.extent()
        if extent is None:
            return
        location = StorageLocation(
            *(store.stream, 0, "cold", keys.cold_stream(store.stream), extent.first_id, extent.last_id),
            *(extent.entries, extent.size_bytes, extent.noted_ms),
        )
        try:
            await self._catalogue.save_locations([location])
        except errors.CatalogueUnavailable as error:
            self._log.warning("place_not_noted", stream=store.stream, error=str(error))

    async def _permit_batch(self) -> int:
        """Until when the next batch may be moved. Raises `LeaseExpired` if compaction is paused or not ours."""
        if await self._is_paused():
            raise leases.LeaseExpired
        return await self._until_ms()

    async def _until_ms(self) -> int:
        loop_watch.report_alive()
        until_ms = await self._turns.next_turn(0)
        if until_ms is None:
            raise leases.LeaseExpired
        return until_ms

    async def _slow_down(self, moved: MoveResult) -> None:
        """Count a batch that was moved, and wait so that no more than `bytes_per_s` are."""
        counters.counts.compacted_raw_bytes += moved.raw_bytes
        counters.counts.compacted_live_bytes += moved.live_bytes
        counters.counts.compacted_cold_bytes += moved.size_bytes
        remaining_s = moved.raw_bytes / self._config.compact.bytes_per_s
        while remaining_s > 0:
            loop_watch.report_alive(PAUSE_MAX_S)
            await anyio.sleep(min(remaining_s, PAUSE_MAX_S))
            remaining_s -= PAUSE_MAX_S

    async def _is_paused(self) -> bool:
        return self._config.compact.paused or bool(await self._link.do("GET", self._config.keys.cold_pause()))

    def _may_begin(self) -> bool:
        return self._hourly_limit.may_begin(anyio.current_time(), self._config.compact.streams_per_hour)

    async def _unused_streams(self) -> list[str]:
        """Streams without an open session that no session used for `after_s`, longest unused first."""
        before_ms = now_ms() - int(self._config.compact.after_s * 1000)
        last_use_ms = await scanning.read_sorted_set(self._link, self._config.keys.streams_used())
        open_refs, _ = await self._sessions.open_and_closed()
        busy = {ref.stream for ref in open_refs}
        unused = (raw.decode() for raw, used_ms in last_use_ms.items() if float(used_ms) <= before_ms)
        return [stream for stream in unused if stream not in busy]

    async def _last_id_to_move(self, store: CompactionStore) -> str | None:
        """Up to which entry a stream is to be moved. None: it is empty, or its last entry is too young."""
        try:
            live = await store.live_info()
        except redis.exceptions.ResponseError as error:
            self._log.error("stream_not_compacted", stream=store.stream, error=str(error))
            return None
        is_old = entry_ids.ms_of(live.last_id) <= now_ms() - self._config.compact.after_s * 1000
        return live.last_id if live.length and is_old else None

    async def _index_unindexed(self) -> None:
        """Index cold streams that are in no index: Redis lost the index entry and not the stream."""
        used = [raw.decode() for raw in await scanning.read_sorted_set(self._link, self._config.keys.streams_used())]
        index = await scanning.read_hash(self._link, self._config.keys.cold_index())
        indexed = {name.decode() for name in index}
        unindexed = [stream for stream in used if stream not in indexed]
        replies = await self._link.do_all([("EXISTS", keys.cold_stream(stream)) for stream in unindexed])
        for stream in (stream for stream, exists in zip(unindexed, replies, strict=True) if exists):
            store = CompactionStore(self._link, self._config.keys, stream)
            await self._attempt(stream, self._repair(store))

    async def _repair(self, store: CompactionStore) -> MoveResult:
        await ColdRepair(store).run(await self._until_ms())
        return MoveResult()
