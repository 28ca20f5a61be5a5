"""Reads the cold part of a stream for readers that see live and cold as one. Holds one batch in memory at a time.

Which part holds the next entries is decided by `rta_wire.stream.live_then_cold`; this module reads from Redis.
"""

from collections.abc import AsyncIterator

from rta_supervisor.compaction import batch_worker
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cursor, live_then_cold


class ColdReader:
    """The cold part of one stream. Callers read the live part before they ask for this one."""

    def __init__(self, link: Link, names: keys.Keys, stream: str) -> None:
        self._store = CompactionStore(link, names, stream)

    async def next_page(self, live: cursor.StreamPage, after: str) -> cursor.StreamPage:
        """The entries after an id: those of the next batch where they are cold, else the page that was read live."""
        read = live_then_cold.ForwardRead(after)
        while (id_range := read.take_index(await self._store.extent())) is not None:
            read.take_batch(await self._store.batch_after(*id_range))
        if read.batch is None:
            return read.live_page(live)
        entries = await batch_worker.unpack_entries(read.batch[1], *read.entry_range)
        return read.cold_page([(entry.id.encode(), entry.by_name()) for entry in entries])

    async def pages_backwards(self, read: live_then_cold.BackwardRead) -> AsyncIterator[list[RawEntry]]:
        """Entries below those that were read live, newest first, those of one batch at a time."""
        upper = read.take_index(await self._store.extent())
        while upper is not None and (batch := await self._store.batch_before(upper)) is not None:
            upper = read.take_batch(batch)
            entries = await batch_worker.unpack_entries(batch.data, *read.entry_range)
            if page := [entry for entry in reversed(entries) if not read.was_live(entry.id)]:
                yield page
