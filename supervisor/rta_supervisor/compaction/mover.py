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
from rta_supervisor.nodes.time_sync import now_ms
from rta_wire import errors, keys, limits
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split
from rta_wire.cold.lz4_roundtrip import Entry, Opened, Opener
from rta_wire.stream import cursor
from rta_wire.stream.cold_index import Held

ID_MAX_DIGITS: Final = 12
"""Of stream session ids that are believed, as in `recovery`."""

Leave = Callable[[], Awaitable[int]]
"""Until when the next batch may be moved. Raises `lease.Over` where no further one may."""


class Moved(msgspec.Struct, frozen=True):
    """What one run did."""

    entries: int = 0
    batches: int = 0
    raw_bytes: int = 0
    live_bytes: int = 0
    size_bytes: int = 0


class _Batch(msgspec.Struct, frozen=True):
    """Entries that go together."""

    entries: list[Opened]
    live_bytes: int
    raw_bytes: int


class Moving:
    """One stream on its way."""

    def __init__(self, place: store.Store, options: cold_batch.Options) -> None:
        self._store = place
        self._options = options
        self._opener = Opener()
        self._widths = byte_split.Widths()
        self._log = log.get(stream=place.stream)

    async def run(self, until: str, leave: Leave, on_batch: Callable[[Moved], Awaitable[None]]) -> Moved:
        """Everything up to an entry. `on_batch` is told of each batch that is done, and may take its time."""
        held = await self.mend(await leave())
        live = await self._store.live()
        # Entries that were ever added before the first one that is moved.
        added = max(live.added - live.length, held.added if held else 0)
        total = Moved()
        async for batch in self._batches(held.last_id if held else cursor.START, until):
            until_ms = await leave()
            added += len(batch.entries)
            held, moved = await self._move(held, batch, added, until_ms)
            total = Moved(*(getattr(total, name) + getattr(moved, name) for name in Moved.__struct_fields__))
            await on_batch(moved)
        return total

    async def mend(self, until_ms: int) -> Held | None:
        """Whatever somebody left half done, and an index that does not say what is there. Gives what it says then."""
        held = await self._store.index()
        if held is not None and await self._is_other(held):
            found = await self._counted(held)
            await self._store.switch(held, found, until_ms)
            self._log.warning("cold_index_mended", was=held.last_id, now=found.last_id if found else None)
            held = found
        if held is not None:
            await self._shed_again(held, until_ms)
        return await self._adopt(held, until_ms)

    async def _is_other(self, held: Held) -> bool:
        """Whether the cold stream is not what the index says, up to where it says something."""
        last = await self._store.batch_before(held.last_id)
        above = await self._store.batch_after(held.last_id)
        count = await self._store.batch_count() - (above is not None)
        return last is None or last[0] != held.last_id or count != held.batches

    async def _counted(self, held: Held) -> Held | None:
        """What the cold stream itself says, up to where the index did."""
        found: Held | None = None
        after = cursor.START
        while (one := await self._store.batch_after(after, held.last_id)) is not None:
            after = one[0]
            found = _with(found, store.header(one), len(one[1]), number=held.number, added=0)
        if found is None:
            return None
        lost = 0 if found.last_id == held.last_id else held.entries - found.entries
        return msgspec.structs.replace(found, added=max(held.added - lost, found.entries))

    async def _adopt(self, held: Held | None, until_ms: int) -> Held | None:
        """Batches that the index does not know: killed before it was told. What can't be trusted is taken back
        where it is alone."""
        while True:
            last_id = held.last_id if held else cursor.START
            one = await self._store.batch_after(last_id)
            if one is None:
                return held
            entry_id, data = one
            live = await self._store.live()
            there = await self._agreeing(entry_id, data, last_id)
            if there is None:
                if held is not None:
                    # Redis takes no second batch that ends where one was taken out: a person has to look.
                    raise errors.ColdDiffers(stream=self._store.stream, batch=entry_id)
                await self._store.take_out(entry_id, until_ms)
                self._log.warning("cold_batch_taken_back", batch=entry_id)
                continue
            header = cold_batch.header(data)
            added = max(live.added - live.length + there, (held.added if held else 0) + header.entries)
            last = (await store.unpacked(data, until=entry_id))[-1]
            new = _with(held, header, len(data), number=_number(last.fields[::2], last.fields[1::2]), added=added)
            await self._store.switch(held, new, until_ms)
            await self._store.shed(entry_id, until_ms)
            held = new

    async def _agreeing(self, entry_id: str, data: bytes, after: str) -> int | None:
        """How many entries are live up to the end of a batch. None where it is not whole, or has not all of them."""
        try:
            found = await store.unpacked(data)
        except errors.BadBatch:
            return None
        if found[-1].id != entry_id or cursor.parse_id(found[0].id) <= cursor.parse_id(after):
            return None
        known = {one.id: one for one in found}
        count = 0
        async for page in self._store.pages(cursor.START, entry_id):
            if any(known.get(one.id) != one for one in page):
                return None
            count += len(page)
        return count

    async def _shed_again(self, held: Held, until_ms: int) -> None:
        """What is live although it is cold: killed before it was taken out. It goes if it is the same."""
        live = await self._store.live()
        if live.first_id is None or not held.is_past(_before(live.first_id)):
            return
        at = _before(live.first_id)
        while (one := await self._store.batch_after(at, held.last_id)) is not None:
            at, data = one
            if await self._agreeing(at, data, cursor.START) is None:
                raise errors.ColdDiffers(stream=self._store.stream, batch=at)
            await self._store.shed(at, until_ms)

    async def _batches(self, after: str, until: str) -> AsyncIterator[_Batch]:
        """Live entries after one id up to another, as many as go into a batch each time."""
        held: list[Opened] = []
        live_bytes = raw_bytes = 0
        async for page in self._store.pages(after, until):
            opened = await anyio.to_thread.run_sync(self._opened, page, limiter=store.compressing)
            for entry, one in zip(page, opened, strict=True):
                if held and cold_batch.is_full(len(held) + 1, raw_bytes + one.size):
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

    def _opened(self, page: list[Entry]) -> list[Opened]:
        return [self._opener.open(entry) for entry in page]

    async def _move(self, held: Held | None, batch: _Batch, added: int, until_ms: int) -> tuple[Held, Moved]:
        data = await anyio.to_thread.run_sync(self._packed, batch, limiter=store.compressing)
        first, last = batch.entries[0], batch.entries[-1]
        before = held.last_id if held else cursor.START
        await self._store.freeze(last.id, before, data, until_ms)
        back = await self._store.batch_after(before)
        if back is None or back[0] != last.id or not await self._is_same(back[1], batch):
            raise errors.ColdDiffers(stream=self._store.stream, batch=last.id)
        new = _with(
            held, cold_batch.header(back[1]), len(back[1]), number=_number(last.names, last.values), added=added
        )
        await self._store.switch(held, new, until_ms)
        await self._store.shed(last.id, until_ms)
        self._log.debug("batch_moved", first=first.id, last=last.id, entries=len(batch.entries), bytes=len(data))
        return new, Moved(len(batch.entries), 1, batch.raw_bytes, batch.live_bytes, len(data))

    def _packed(self, batch: _Batch) -> bytes:
        return cold_batch.packed(batch.entries, self._widths, live_bytes=batch.live_bytes, options=self._options)

    async def _is_same(self, data: bytes, batch: _Batch) -> bool:
        """What LZ4 makes of the values again was compared when they were opened."""
        try:
            found = await anyio.to_thread.run_sync(cold_batch.unpacked, data, limiter=store.compressing)
        except errors.BadBatch:
            return False
        return found == batch.entries


def _with(held: Held | None, header: cold_batch.Header, size: int, *, number: int, added: int) -> Held:
    """The index with one more batch."""
    return Held(
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


def _number(names: Sequence[bytes], values: Sequence[bytes]) -> int:
    """The session that an entry is of, 0 where it is of none."""
    for name, value in zip(names, values, strict=True):
        if name == keys.ENTRY_ID and value.isdigit() and len(value) <= ID_MAX_DIGITS:
            return int(value)
    return 0


def _before(entry_id: str) -> str:
    ms, seq = cursor.parse_id(entry_id)
    return f"{ms}-{seq - 1}" if seq else f"{max(ms - 1, 0)}-{2**64 - 1}"
