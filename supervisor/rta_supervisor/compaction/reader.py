"""Reads the cold part of a stream for those who see live and cold as one. A batch at a time is held in memory."""

from collections.abc import AsyncIterator

from rta_supervisor.compaction import store
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.cold.lz4_roundtrip import Entry
from rta_wire.stream import cold_index, cursor
from rta_wire.stream.cold_index import Held


class View:
    """The cold part of one stream, as the index has it now. Who asks has looked at the live stream before."""

    def __init__(self, link: Link, names: keys.Keys, stream: str) -> None:
        self._store = store.Store(link, names, stream)

    async def held(self) -> Held | None:
        return await self._store.index()

    async def joined(self, live: cursor.Part, position: str) -> cursor.Part:
        """What comes after a place, given what was found live a moment before."""
        found = await self.held()
        if found is not None and found.is_past(position):
            return await self.part_after(position) or live
        return live if found is None else cold_index.joined(live, found)

    async def part_after(self, position: str) -> cursor.Part | None:
        """The entries of a batch that come after a place. None where what comes next is live."""
        found = await self.held()
        while found is not None and found.is_past(position):
            batch = await self._store.batch_after(position, found.last_id)
            # Looked at again: old batches may go at any moment, and the index is told before they do.
            now = await self.held()
            if now == found:
                if batch is None:
                    return None
                entries = await store.unpacked(batch[1], position, found.last_id)
                return cold_index.part(found, [(one.id, one.fields) for one in entries])
            found = now
        return None

    async def back(self, below: str, above: str) -> AsyncIterator[list[Entry]]:
        """Entries between two ids, newest first, those of a batch at a time."""
        found = await self.held()
        if found is None or not found.is_past(above):
            return
        at = found.last_id
        while (batch := await self._store.batch_before(at)) is not None:
            at = f"({batch[0]}"
            entries = await store.unpacked(batch[1], above, found.last_id)
            if inside := [one for one in entries if cursor.parse_id(one.id) < cursor.parse_id(below)]:
                yield inside[::-1]
            if cursor.parse_id(batch[0]) <= cursor.parse_id(above):
                return
