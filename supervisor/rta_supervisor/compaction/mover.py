"""Moves one stream from live to cold, a batch at a time: write the batch, read it back, put it into the index, remove
its entries from the live stream.

This takes memory for one batch, and a compactor that is killed at any step leaves something that `repair` can finish.
Nothing leaves the live stream that was not read back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from rta_supervisor.compaction import batch_worker, extents
from rta_supervisor.compaction.repair import ColdRepair
from rta_supervisor.compaction.store import CompactionStore, StoredBatch
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_wire import entry_ids, errors, limits
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split
from rta_wire.cold.lz4_roundtrip import Lz4Unpacker, RawEntry, UnpackedEntry
from rta_wire.stream.cold_index import ColdExtent

PermitBatch = Callable[[], Awaitable[int]]
"""Until when the next batch may be moved. Raises `LeaseExpired` where it may not."""


class MoveResult(msgspec.Struct, frozen=True):
    """How much was moved."""

    entries: int = 0
    batches: int = 0
    raw_bytes: int = 0
    live_bytes: int = 0
    size_bytes: int = 0

    def plus(self, other: "MoveResult") -> "MoveResult":
        return MoveResult(*map(sum, zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)))


class _EntryGroup(msgspec.Struct, frozen=True):
    """Entries that become one batch."""

    entries: list[UnpackedEntry]
    live_bytes: int
    raw_bytes: int


class StreamMover:
    """Moves one stream."""

    def __init__(self, store: CompactionStore, compression: cold_batch.ColdCompression) -> None:
        self._store = store
        self._compression = compression
        self._unpacker = Lz4Unpacker()
        self._widths = byte_split.WidthChooser()
        self._log = log.get(stream=store.stream)

    async def run(
        self, until: str, permit_batch: PermitBatch, on_batch: Callable[[MoveResult], Awaitable[None]]
    ) -> MoveResult:
        """Move everything up to an entry id. `on_batch` is awaited after each batch, and may wait to slow this down."""
        extent = await ColdRepair(self._store).run(await permit_batch())
        live = await self._store.live_info()
        # Entries that were ever added before the first one that is moved.
        added = max(live.added - live.length, extent.added if extent else 0)
        total = MoveResult()
        async for group in self._groups(extent.last_id if extent else entry_ids.MIN, until):
            until_ms = await permit_batch()
            added += len(group.entries)
            extent, moved = await self._move(extent, group, added, until_ms)
            total = total.plus(moved)
            await on_batch(moved)
        return total

    async def _groups(self, after: str, until: str) -> AsyncIterator[_EntryGroup]:
        """Live entries after one id and up to another, in groups that each fill a batch."""
        entries: list[UnpackedEntry] = []
        live_bytes = raw_bytes = 0
        async for page in self._store.live_pages(after, until):
            for raw, entry in zip(page, await batch_worker.run(self._unpack, page), strict=True):
                entry_bytes = sum(map(len, raw.fields))
                is_full = (
                    cold_batch.is_over_limit(len(entries) + 1, raw_bytes + entry.size)
                    or live_bytes + entry_bytes > limits.COLD_BATCH_LIVE_BYTES
                )
                if entries and is_full:
                    yield _EntryGroup(entries, live_bytes, raw_bytes)
                    self._unpacker.next_batch()
                    entries, live_bytes, raw_bytes = [], 0, 0
                if entry.size > limits.COLD_BATCH_MAX_BYTES:
                    raise errors.TooLargeForBatch(entry=raw.id, size=entry.size, limit=limits.COLD_BATCH_MAX_BYTES)
                entries.append(entry)
                live_bytes += entry_bytes
                raw_bytes += entry.size
        if entries:
            yield _EntryGroup(entries, live_bytes, raw_bytes)

    def _unpack(self, page: list[RawEntry]) -> list[UnpackedEntry]:
        return [self._unpacker.unpack(entry) for entry in page]

    async def _move(
        self, extent: ColdExtent | None, group: _EntryGroup, added: int, until_ms: int
    ) -> tuple[ColdExtent, MoveResult]:
        data = await batch_worker.run(self._pack, group)
        first, last = group.entries[0], group.entries[-1]
        before = extent.last_id if extent else entry_ids.MIN
        await self._store.append_batch(last.id, before, data, until_ms)
        stored = await self._store.batch_after(before)
        if stored is None or not await self._holds(stored, group):
            raise errors.ColdDiffers(stream=self._store.stream, batch=last.id)
        new = extents.with_batch(
            *(extent, stored.header(), len(stored.data)),
            session_id=extents.session_id_of(last.names, last.values),
            added=added,
            at_ms=now_ms(),
        )
        await self._store.replace_extent(extent, new, until_ms)
        await self._store.trim_live(last.id, until_ms)
        self._log.debug("batch_moved", first=first.id, last=last.id, entries=len(group.entries), bytes=len(data))
        return new, MoveResult(len(group.entries), 1, group.raw_bytes, group.live_bytes, len(data))

    def _pack(self, group: _EntryGroup) -> bytes:
        return cold_batch.pack_batch(
            group.entries, self._widths, live_bytes=group.live_bytes, options=self._compression
        )

    async def _holds(self, stored: StoredBatch, group: _EntryGroup) -> bool:
        """Whether a batch that was read back has the entries of a group.

        That LZ4 gives their live bytes again was checked when they were unpacked.
        """
        if stored.id != group.entries[-1].id:
            return False
        try:
            entries = await batch_worker.run(cold_batch.unpack_batch, stored.data)
        except errors.BadBatch:
            return False
        return entries == group.entries
