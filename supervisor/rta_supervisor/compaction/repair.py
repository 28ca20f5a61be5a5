"""Repairs the cold part of a stream after a compaction that was interrupted, or after Redis lost a part of it.

A batch that the index does not have is compared with the live stream; entries that are live although the index has them
are compared with the cold stream. What is not the same stays where it is, for a person to look at.
"""

import msgspec

from rta_supervisor.compaction import batch_worker, extents
from rta_supervisor.compaction.store import CompactionStore, StoredBatch
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_wire import entry_ids, errors
from rta_wire.stream.cold_index import ColdExtent


class ColdRepair:
    """Repairs one stream."""

    def __init__(self, store: CompactionStore) -> None:
        self._store = store
        self._log = log.get(stream=store.stream)

    async def run(self, until_ms: int) -> ColdExtent | None:
        """Make index, cold stream and live stream agree. Returns the index entry that results."""
        extent = await self._store.extent()
        if extent is not None and await self._differs_from_index(extent):
            recounted = await self._recount(extent)
            await self._store.replace_extent(extent, recounted, until_ms)
            self._log.warning("cold_index_mended", was=extent.last_id, now=recounted.last_id if recounted else None)
            extent = recounted
        if extent is not None:
            await self._trim_moved_again(extent, until_ms)
        return await self._index_new_batches(extent, until_ms)

    async def _differs_from_index(self, extent: ColdExtent) -> bool:
        """Whether the cold stream is not what the index says, up to the last id in the index."""
        last = await self._store.batch_before(extent.last_id)
        above = await self._store.batch_after(extent.last_id)
        count = await self._store.batch_count() - (above is not None)
        return last is None or last.id != extent.last_id or count != extent.batches

    async def _recount(self, indexed: ColdExtent) -> ColdExtent | None:
        """The index entry as the batches themselves say, up to the last id in the index."""
        extent: ColdExtent | None = None
        after = entry_ids.MIN
        while (batch := await self._store.batch_after(after, indexed.last_id)) is not None:
            after = batch.id
            extent = extents.with_batch(
                extent, batch.header(), len(batch.data), session_id=indexed.number, added=0, at_ms=now_ms()
            )
        if extent is None:
            return None
        lost = 0 if extent.last_id == indexed.last_id else indexed.entries - extent.entries
        return msgspec.structs.replace(extent, added=max(indexed.added - lost, extent.entries))

    async def _trim_moved_again(self, extent: ColdExtent, until_ms: int) -> None:
        """Remove live entries that are cold: a compactor was killed before it did. They have to be the same."""
        live = await self._store.live_info()
        if live.first_id is None or not extent.is_ahead_of(entry_ids.previous_id(live.first_id)):
            return
        after = entry_ids.previous_id(live.first_id)
        while (batch := await self._store.batch_after(after, extent.last_id)) is not None:
            if await self._count_matching_live(batch, entry_ids.MIN) is None:
                raise errors.ColdDiffers(stream=self._store.stream, batch=batch.id)
            await self._store.trim_live(batch.id, until_ms)
            after = batch.id

    async def _index_new_batches(self, extent: ColdExtent | None, until_ms: int) -> ColdExtent | None:
        """Put batches into the index that a compactor was killed before it could index."""
        while True:
            last_id = extent.last_id if extent else entry_ids.MIN
            batch = await self._store.batch_after(last_id)
            if batch is None:
                return extent
            live = await self._store.live_info()
            live_entries = await self._count_matching_live(batch, last_id)
            if live_entries is None:
                await self._remove_untrusted(batch, until_ms, is_first=extent is None)
                continue
            header = batch.header()
            last = (await batch_worker.unpack_entries(batch.data, until=batch.id))[-1]
            new = extents.with_batch(
                *(extent, header, len(batch.data)),
                session_id=extents.session_id_of(last.fields[::2], last.fields[1::2]),
                added=max(live.added - live.length + live_entries, (extent.added if extent else 0) + header.entries),
                at_ms=now_ms(),
            )
            await self._store.replace_extent(extent, new, until_ms)
            await self._store.trim_live(batch.id, until_ms)
            extent = new

    async def _remove_untrusted(self, batch: StoredBatch, until_ms: int, *, is_first: bool) -> None:
        """Remove a batch that is damaged or differs from the live stream, if no batch is before it."""
        if not is_first:
            # Redis takes no second batch with the id of one that was removed: a person has to look.
            raise errors.ColdDiffers(stream=self._store.stream, batch=batch.id)
        await self._store.remove_batch(batch.id, until_ms)
        self._log.warning("cold_batch_taken_back", batch=batch.id)

    async def _count_matching_live(self, batch: StoredBatch, after: str) -> int | None:
        """How many entries are live up to the end of a batch. None: the batch is damaged, begins before `after`, or
        lacks one of these entries."""
        try:
            entries = await batch_worker.unpack_entries(batch.data)
        except errors.BadBatch:
            return None
        if entries[-1].id != batch.id or not entry_ids.is_after(entries[0].id, after):
            return None
        by_id = {entry.id: entry for entry in entries}
        count = 0
        async for page in self._store.live_pages(entry_ids.MIN, batch.id):
            if any(by_id.get(entry.id) != entry for entry in page):
                return None
            count += len(page)
        return count
