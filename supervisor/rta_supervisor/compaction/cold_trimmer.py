"""Keeps streams that have a cold part within the limits of `[trim]`, which hold for live and cold together: the oldest
batches go first.

What is too much is decided in `cold_limits`. Live entries are trimmed by `retention`.
"""

import math

import anyio
import redis.exceptions

from rta_supervisor.compaction import cold_limits, extents
from rta_supervisor.compaction.store import CompactionStore, StoredBatch
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import archive_floor, trim_snapshot
from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_supervisor.retention.archive_floor_store import ArchiveFloorStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, replies, scanning
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, pages
from rta_wire import entry_ids, errors
from rta_wire.stream import cold_index
from rta_wire.stream.cold_index import ColdExtent


class ColdTrimmer:
    """Sweeps over all streams that have a cold part."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._floors = ArchiveFloorStore(link, config)
        self._has_room = True
        self._log = log.get(duty="compact")

    async def sweep(self, until_ms: int) -> None:
        """Trim the cold part of every stream, also where compaction is switched off."""
        index = await scanning.read_hash(self._link, self._config.keys.cold_index())
        if not index:
            return
        infos = map(replies.parse_info, await self._link.do_on_primaries("INFO", "memory"))
        self._has_room = trim_snapshot.has_room(infos)
        floors = await self._floors.read()
        await self._track_streams([name.decode() for name in index])
        for name, raw in index.items():
            loop_watch.report_alive()
            stream = name.decode()
            try:
                extent = cold_index.parse(raw)
                if extent is not None:
                    store = CompactionStore(self._link, self._config.keys, stream)
                    await self._trim_stream(store, extent, floors.get(stream), until_ms)
            except (errors.BadBatch, redis.exceptions.ResponseError) as error:
                self._log.error("cold_not_trimmed", stream=stream, error=str(error))

    async def trim(self, stream: str, limits: settings.TrimLimits, at_ms: int, until_s: float) -> bool:
        """Trim the cold part of one stream to these limits, with ages as of `at_ms`. Batches that the archive needs
        stay.

        Gives whether it came to the end before `until_s`, a time of the event loop, and nobody changed the stream
        meanwhile.
        """
        store = CompactionStore(self._link, self._config.keys, stream)
        extent = await store.extent()
        if extent is None:
            return True
        up_to = _removable_up_to((await self._floors.read()).get(stream))
        try:
            await self._remove_batches(
                store, extent, limits, commands.FOREVER, up_to=up_to, at_ms=at_ms, until_s=until_s
            )
        except leases.LeaseExpired:
            return False
        return anyio.current_time() < until_s

    async def _track_streams(self, streams: list[str]) -> None:
        """Have the trimming duty look at streams with a cold part: one that is in no list would stay for ever."""
        for page in pages(streams, PAGE_SIZE):
            scores = await self._link.do("ZMSCORE", self._config.keys.streams_used(), *page)
            missing = [stream for stream, score in zip(page, scores, strict=True) if score is None]
            if missing:
                arguments = [argument for stream in missing for argument in (now_ms(), stream)]
                await self._link.do("ZADD", self._config.keys.streams_used(), "NX", *arguments)

    async def _trim_stream(
        self, store: CompactionStore, extent: ColdExtent, floor: ArchiveFloor | None, until_ms: int
    ) -> None:
        """What the archive needs stays, until the stream takes more memory than it may while it waits."""
        limits = self._config.trim.limits_for(store.stream)
        await self._remove_batches(store, extent, limits, until_ms, up_to=_removable_up_to(floor))
        if floor is None or not await self._floors.is_over_limit(store.stream, floor):
            return
        past_floor = archive_floor.limits_past_floor(limits, self._config.archive.max_bytes)
        # What the archive has goes first: no session is cut by that.
        for up_to in (floor.position, entry_ids.MAX):
            count, before = 0, await store.extent()
            if before is not None:
                count = await self._remove_batches(store, before, past_floor, until_ms, up_to=up_to)
        if count:
            remaining = await store.extent()
            first_id = extent.last_id if remaining is None else remaining.first_id
            await self._floors.note_cut(store.stream, floor, count, first_id)

    async def _remove_batches(
        self,
        store: CompactionStore,
        extent: ColdExtent,
        limits: settings.TrimLimits,
        until_ms: int,
        *,
        up_to: str = entry_ids.MAX,
        at_ms: int | None = None,
        until_s: float = math.inf,
    ) -> int:
        """Remove the oldest batches while the stream is over its limits. Returns how many entries they had.

        `up_to`: batches with later entries stay. `at_ms`: the time from which ages are counted; None: now. `until_s`:
        when to stop, by the event loop.

        A batch leaves the index before it is removed, so that readers find everything that the index has.
        """
        count = 0
        live = await store.live_info()
        live_entries = min(live.length, max(live.added - extent.added, 0))
        last_id = max(live.last_id, extent.last_id, key=entry_ids.parse)
        current: ColdExtent | None = extent
        while current is not None and anyio.current_time() < until_s:
            is_measured = limits.max_bytes or cold_limits.are_many(current, live_entries, limits)
            memory_bytes = await store.memory_bytes() if is_measured else 0
            usage = cold_limits.StreamUsage(live_entries, memory_bytes, at_ms or now_ms(), last_id, self._has_room)
            if not cold_limits.may_exceed(current, usage, limits) and await store.batch_count() <= current.batches:
                break
            first = await store.batch_after(entry_ids.MIN)
            if first is None:
                break
            header = first.header()
            if entry_ids.is_after(current.first_id, header.last_id):
                # Killed after the batch left the index: nobody counts it any more.
                await store.remove_batch(first.id, until_ms)
                continue
            is_needed = entry_ids.is_after(header.last_id, up_to)
            if is_needed or not cold_limits.should_remove(header, current, usage, limits):
                break
            remaining = await _without_first(store, current, first)
            await store.replace_extent(current, remaining, until_ms)
            await store.remove_batch(first.id, until_ms)
            count += header.entries
            current = remaining
        if count:
            self._log.info("cold_trimmed", stream=store.stream, entries=count)
        return count


def _removable_up_to(floor: ArchiveFloor | None) -> str:
    """The last entry that may be removed: the archive needs what comes after its floor."""
    return entry_ids.MAX if floor is None else floor.position


async def _without_first(store: CompactionStore, extent: ColdExtent, first: StoredBatch) -> ColdExtent | None:
    """The index entry without its first batch, None where that is its only one."""
    second = await store.batch_after(first.id) if extent.batches > 1 else None
    if second is None:
        return None
    return extents.without_first_batch(extent, first.header(), len(first.data), second=second.header(), at_ms=now_ms())
