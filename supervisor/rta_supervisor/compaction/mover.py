"""Moves one stream, a batch at a time: write it, read it back, say so in the index, take it out of the live stream.

So it needs room for one batch, and whoever is killed at any step leaves something that the next one can go on from: a
batch that the index does not know is checked against the live stream, and what is live although the index has it is
checked against the cold stream. Nothing leaves the live stream that was not read back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import anyio.to_thread
import msgspec

from rta_supervisor.compaction import store
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_wire import entry_ids, errors, keys, limits
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split
from rta_wire.cold.lz4_roundtrip import Lz4Unpacker, RawEntry, UnpackedEntry
from rta_wire.stream.cold_index import ColdExtent

SESSION_ID_MAX_DIGITS: Final = 12
"""Of stream session ids that are believed, as in `recovery`."""

PermitBatch = Callable[[], Awaitable[int]]
"""Until when the next batch may be moved. Raises `lease.Over` where no further one may."""


class MoveResult(msgspec.Struct, frozen=True):
    """What one run did."""

    entries: int = 0
    batches: int = 0
    raw_bytes: int = 0
    live_bytes: int = 0
    size_bytes: int = 0


class _Batch(msgspec.Struct, frozen=True):
    """Entries that go together."""

    entries: list[UnpackedEntry]
    live_bytes: int
    raw_bytes: int


class StreamMover:
    """One stream on its way."""

    def __init__(self, place: store.CompactionStore, options: cold_batch.ColdCompression) -> None:
        self._store = place
        self._options = options
        self._opener = Lz4Unpacker()
        self._widths = byte_split.WidthChooser()
        self._log = log.get(stream=place.stream)

    async def run(
        self, until: str, permit_batch: PermitBatch, on_batch: Callable[[MoveResult], Awaitable[None]]
    ) -> MoveResult:
        """Everything up to an entry. `on_batch` is told of each batch that is done, and may take its time."""
        held = await self.repair(await permit_batch())
        live = await self._store.live()
        # Entries that were ever added before the first one that is moved.
        added = max(live.added - live.length, held.added if held else 0)
        total = MoveResult()
        async for batch in self._batches(held.last_id if held else entry_ids.MIN, until):
            until_ms = await permit_batch()
            added += len(batch.entries)
            held, moved = await self._move(held, batch, added, until_ms)
            total = MoveResult(*(getattr(total, name) + getattr(moved, name) for name in MoveResult.__struct_fields__))
            await on_batch(moved)
        return total

    async def repair(self, until_ms: int) -> ColdExtent | None:
        """Whatever somebody left half done, and an index that does not say what is there. Gives what it says then."""
        held = await self._store.index()
        if held is not None and await self._index_differs(held):
            found = await self._counted(held)
            await self._store.replace_index_entry(held, found, until_ms)
            self._log.warning("cold_index_mended", was=held.last_id, now=found.last_id if found else None)
            held = found
        if held is not None:
            await self._trim_moved_again(held, until_ms)
        return await self._index_new_batches(held, until_ms)

    async def _index_differs(self, held: ColdExtent) -> bool:
        """Whether the cold stream is not what the index says, up to where it says something."""
        last = await self._store.batch_before(held.last_id)
        above = await self._store.batch_after(held.last_id)
        count = await self._store.batch_count() - (above is not None)
        return last is None or last[0] != held.last_id or count != held.batches

    async def _counted(self, held: ColdExtent) -> ColdExtent | None:
        """What the cold stream itself says, up to where the index did."""
        found: ColdExtent | None = None
        after = entry_ids.MIN
        while (one := await self._store.batch_after(after, held.last_id)) is not None:
            after = one[0]
            found = _index_with_batch(found, store.read_header(one), len(one[1]), number=held.number, added=0)
        if found is None:
            return None
        lost = 0 if found.last_id == held.last_id else held.entries - found.entries
        return msgspec.structs.replace(found, added=max(held.added - lost, found.entries))

    async def _index_new_batches(self, held: ColdExtent | None, until_ms: int) -> ColdExtent | None:
        """Batches that the index does not know: killed before it was told. What can't be trusted is taken back
        where it is alone."""
        while True:
            last_id = held.last_id if held else entry_ids.MIN
            one = await self._store.batch_after(last_id)
            if one is None:
                return held
            entry_id, data = one
            live = await self._store.live()
            there = await self._count_matching_live(entry_id, data, last_id)
            if there is None:
                if held is not None:
                    # Redis takes no second batch that ends where one was taken out: a person has to look.
                    raise errors.ColdDiffers(stream=self._store.stream, batch=entry_id)
                await self._store.remove_batch(entry_id, until_ms)
                self._log.warning("cold_batch_taken_back", batch=entry_id)
                continue
            header = cold_batch.read_header(data)
            added = max(live.added - live.length + there, (held.added if held else 0) + header.entries)
            last = (await store.unpack_entries(data, until=entry_id))[-1]
            new = _index_with_batch(
                held, header, len(data), number=_session_id_of(last.fields[::2], last.fields[1::2]), added=added
            )
            await self._store.replace_index_entry(held, new, until_ms)
            await self._store.trim_live(entry_id, until_ms)
            held = new

    async def _count_matching_live(self, entry_id: str, data: bytes, after: str) -> int | None:
        """How many entries are live up to the end of a batch. None where it is not whole, or has not all of them."""
        try:
            found = await store.unpack_entries(data)
        except errors.BadBatch:
            return None
        if found[-1].id != entry_id or entry_ids.parse(found[0].id) <= entry_ids.parse(after):
            return None
        known = {one.id: one for one in found}
        count = 0
        async for page in self._store.live_pages(entry_ids.MIN, entry_id):
            if any(known.get(one.id) != one for one in page):
                return None
            count += len(page)
        return count

    async def _trim_moved_again(self, held: ColdExtent, until_ms: int) -> None:
        """What is live although it is cold: killed before it was taken out. It goes if it is the same."""
        live = await self._store.live()
        if live.first_id is None or not held.is_ahead_of(entry_ids.previous_id(live.first_id)):
            return
        at = entry_ids.previous_id(live.first_id)
        while (one := await self._store.batch_after(at, held.last_id)) is not None:
            at, data = one
            if await self._count_matching_live(at, data, entry_ids.MIN) is None:
                raise errors.ColdDiffers(stream=self._store.stream, batch=at)
            await self._store.trim_live(at, until_ms)

    async def _batches(self, after: str, until: str) -> AsyncIterator[_Batch]:
        """Live entries after one id up to another, as many as go into a batch each time."""
        held: list[UnpackedEntry] = []
        live_bytes = raw_bytes = 0
        async for page in self._store.live_pages(after, until):
            opened = await anyio.to_thread.run_sync(self._opened, page, limiter=store.compression_limiter)
            for entry, one in zip(page, opened, strict=True):
                if held and cold_batch.is_over_limit(len(held) + 1, raw_bytes + one.size):
                    yield _Batch(held, live_bytes, raw_bytes)
                    self._opener.next_batch()
                    held, live_bytes, raw_bytes = [], 0, 0
                if one.size > limits.COLD_BATCH_MAX_BYTES:
                    raise errors.TooLargeForBatch(entry=entry.id, size=one.size, limit=limits.COLD_BATCH_MAX_BYTES)
                held.append(one)
                live_bytes += sum(map(len, entry.fields))
                raw_bytes += one.size
        if held:
            yield _Batch(held, live_bytes, raw_bytes)

    def _opened(self, page: list[RawEntry]) -> list[UnpackedEntry]:
        return [self._opener.unpack(entry) for entry in page]

    async def _move(
        self, held: ColdExtent | None, batch: _Batch, added: int, until_ms: int
    ) -> tuple[ColdExtent, MoveResult]:
        data = await anyio.to_thread.run_sync(self._packed, batch, limiter=store.compression_limiter)
        first, last = batch.entries[0], batch.entries[-1]
        before = held.last_id if held else entry_ids.MIN
        await self._store.append_batch(last.id, before, data, until_ms)
        back = await self._store.batch_after(before)
        if back is None or back[0] != last.id or not await self._is_same(back[1], batch):
            raise errors.ColdDiffers(stream=self._store.stream, batch=last.id)
        new = _index_with_batch(
            held,
            cold_batch.read_header(back[1]),
            len(back[1]),
            number=_session_id_of(last.names, last.values),
            added=added,
        )
        await self._store.replace_index_entry(held, new, until_ms)
        await self._store.trim_live(last.id, until_ms)
        self._log.debug("batch_moved", first=first.id, last=last.id, entries=len(batch.entries), bytes=len(data))
        return new, MoveResult(len(batch.entries), 1, batch.raw_bytes, batch.live_bytes, len(data))

    def _packed(self, batch: _Batch) -> bytes:
        return cold_batch.pack_batch(batch.entries, self._widths, live_bytes=batch.live_bytes, options=self._options)

    async def _is_same(self, data: bytes, batch: _Batch) -> bool:
        """What LZ4 makes of the values again was compared when they were opened."""
        try:
            found = await anyio.to_thread.run_sync(cold_batch.unpack_batch, data, limiter=store.compression_limiter)
        except errors.BadBatch:
            return False
        return found == batch.entries


def _index_with_batch(
    held: ColdExtent | None, header: cold_batch.Header, size: int, *, number: int, added: int
) -> ColdExtent:
    """The index with one more batch."""
    return ColdExtent(
        first_id=held.first_id if held else header.first_id,
        last_id=header.last_id,
        entries=(held.entries if held else 0) + header.entries,
        batches=(held.batches if held else 0) + 1,
        added=added,
        size_bytes=(held.size_bytes if held else 0) + size,
        live_bytes=(held.live_bytes if held else 0) + header.live_bytes,
        raw_bytes=(held.raw_bytes if held else 0) + header.raw_bytes,
        number=max(held.number if held else 0, number),
        noted_ms=now_ms(),
    )


def _session_id_of(names: Sequence[bytes], values: Sequence[bytes]) -> int:
    """The session that an entry is of, 0 where it is of none."""
    for name, value in zip(names, values, strict=True):
        if name == keys.ENTRY_ID and value.isdigit() and len(value) <= SESSION_ID_MAX_DIGITS:
            return int(value)
    return 0
