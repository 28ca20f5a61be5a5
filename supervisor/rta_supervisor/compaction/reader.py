"""Reads the cold part of a stream for those who see live and cold as one. A batch at a time is held in memory."""

from collections.abc import AsyncIterator

from rta_supervisor.compaction import store
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cursor, live_then_cold
from rta_wire.stream.cold_index import ColdExtent


class ColdReader:
    """The cold part of one stream, as the index has it now. Who asks has looked at the live stream before."""

    def __init__(self, link: Link, names: keys.Keys, stream: str) -> None:
        self._store = store.CompactionStore(link, names, stream)

    async def index_entry(self) -> ColdExtent | None:
        return await self._store.index()

    async def next_part(self, live: cursor.StreamPage, position: str) -> cursor.StreamPage:
        """What comes after a place, given what was found live a moment before."""
        found = await self.index_entry()
        if found is not None and found.is_ahead_of(position):
            return await self.cold_part_after(position) or live
        return live if found is None else live_then_cold.live_page(live, found)

    async def cold_part_after(self, position: str) -> cursor.StreamPage | None:
        """The entries of a batch that come after a place. None where what comes next is live."""
        found = await self.index_entry()
        while found is not None and found.is_ahead_of(position):
            batch = await self._store.batch_after(position, found.last_id)
            # Looked at again: old batches may go at any moment, and the index is told before they do.
            now = await self.index_entry()
            if now == found:
                if batch is None:
                    return None
                entries = await store.unpack_entries(batch[1], position, found.last_id)
                return live_then_cold.cold_page(found, [(one.id, one.fields) for one in entries])
            found = now
        return None

    async def pages_backwards(self, below: str, above: str) -> AsyncIterator[list[RawEntry]]:
        """Entries between two ids, newest first, those of a batch at a time."""
        found = await self.index_entry()
        if found is None or not found.is_ahead_of(above):
            return
        at = found.last_id
        while (batch := await self._store.batch_before(at)) is not None:
            at = f"({batch[0]}"
            entries = await store.unpack_entries(batch[1], above, found.last_id)
            if inside := [one for one in entries if entry_ids.parse(one.id) < entry_ids.parse(below)]:
                yield inside[::-1]
            if entry_ids.parse(batch[0]) <= entry_ids.parse(above):
                return
