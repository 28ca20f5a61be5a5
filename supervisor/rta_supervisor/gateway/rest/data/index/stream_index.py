"""The time index of one session in its stream: which entries cover which time, and their samples summed up.

Made once and extended. What was read stays, so that the next request goes on where another one ended.
"""

from typing import Final

import anyio
import anyio.to_thread
import msgspec

from rta_supervisor.gateway.rest.data import session_samples
from rta_supervisor.gateway.rest.data.session_samples import DecodedEntries, OnBadEntry
from rta_supervisor.gateway.rest.data.stream_blocks import SessionEntries, decode_limiter, id_of
from rta_supervisor.gateway.rest.data.time_index import Block, TimeSpan
from rta_wire import entry_ids, errors, session
from rta_wire.chunks import envelope_cells
from rta_wire.codec import layout
from rta_wire.stream import cursor
from rta_wire.stream.cursor import StreamEntry

FIRST_PAGE_ENTRIES: Final = 16
PAGE_MAX_ENTRIES: Final = 512
PAGE_BYTES: Final = 1024 * 1024
"""About how much of a live stream one block has."""

MERGED_MAX_ENTRIES: Final = 64
"""A block of an open session that is smaller than this is joined with the next one."""

_BLOCK_BYTES: Final = 500
_CHANNEL_BYTES: Final = 64


class StreamIndex:
    """The blocks of one session in its stream, from its first entry on. Extended when somebody asks."""

    def __init__(self, after: str) -> None:
        self.after = after
        """The id from which on entries are looked at."""
        self.blocks: list[Block] = []
        self.position = after
        """The last entry of the stream that was read."""
        self.is_complete = False
        """Whether the last entry of the session has been read: no other comes after it."""
        self._channel_sets: dict[frozenset[int], frozenset[int]] = {}
        self._page_entries = FIRST_PAGE_ENTRIES
        self._size_bytes: int | None = 0

    async def forget_trimmed(self, entries: SessionEntries) -> None:
        """Leave out blocks whose entries are gone from the stream. Where that is all of them, the stream may have been
        removed and made again, with a session of the same number: it is looked for behind them, or from the start."""
        if self.position == self.after:
            return
        first_id, last_id = await entries.bounds()
        if entry_ids.is_after(self.position, last_id):
            self.restore([], self.after, is_complete=False)
            return
        kept = 0
        while kept < len(self.blocks) and entry_ids.is_after(first_id, self.blocks[kept].until):
            kept += 1
        del self.blocks[:kept]
        self.is_complete = self.is_complete and bool(self.blocks)
        self._size_bytes = None
        if self.blocks and entry_ids.is_after(first_id, self.blocks[0].first):
            self.blocks[0] = msgspec.structs.replace(self.blocks[0], cells=None)

    async def extend(self, entries: SessionEntries, layouts: layout.Plan, on_bad: OnBadEntry, *, pages: int) -> bool:
        """Read on by so many pages. Whether the end of the stream was reached. Not to be called twice at a time."""
        for _ in range(pages):
            if self.is_complete:
                return True
            page = await entries.page(self.position, "+", self._page_entries)
            if not page.entries:
                return True
            decoded, cells = await anyio.to_thread.run_sync(
                _decode, entries.own(page), layouts, on_bad, limiter=decode_limiter
            )
            self._add(self._block(page, decoded, cells))
            self.is_complete = any(_is_final(document) for document in decoded.session_json)
            if page.is_complete:
                return True
            size = sum(len(data) for _, fields in page.entries for data in fields.values())
            self._page_entries = min(max(PAGE_BYTES * len(page.entries) // max(size, 1), 1), PAGE_MAX_ENTRIES)
        return self.is_complete

    def restore(self, blocks: list[Block], position: str, *, is_complete: bool) -> None:
        """Take what was read before."""
        self.blocks = [msgspec.structs.replace(block, channels=self._shared(block.channels)) for block in blocks]
        self.position = position
        self.is_complete = is_complete
        self._size_bytes = None

    def _add(self, block: Block) -> None:
        last = self.blocks[-1] if self.blocks else None
        if last is not None and last.entries + block.entries <= MERGED_MAX_ENTRIES:
            self.blocks[-1] = self._merge(last, block)
        else:
            self.blocks.append(block)
        self.position = block.until
        self._size_bytes = None

    def _block(
        self, page: cursor.StreamPage, decoded: DecodedEntries, cells: envelope_cells.EnvelopeCells | None
    ) -> Block:
        sample_span = event_span = None
        channels: set[int] = set()
        for columns in decoded.samples:
            if len(columns.times_ns):
                span = TimeSpan(int(columns.times_ns.min()), int(columns.times_ns.max()))
                sample_span = span.join(sample_span)
                channels.update(columns.channels.tolist())
        for event in decoded.events:
            event_span = TimeSpan(event.timestamp, event.timestamp).join(event_span)
        return Block(
            after=self.position,
            until=id_of(page.entries[-1]),
            first=id_of(page.entries[0]),
            entries=len(page.entries),
            samples=sum(len(columns.times_ns) for columns in decoded.samples),
            sample_span=sample_span,
            events=len(decoded.events),
            event_span=event_span,
            channels=self._shared(frozenset(channels)),
            cells=cells,
        )

    def _merge(self, first: Block, second: Block) -> Block:
        return msgspec.structs.replace(
            first,
            until=second.until,
            entries=first.entries + second.entries,
            samples=first.samples + second.samples,
            sample_span=_join(first.sample_span, second.sample_span),
            events=first.events + second.events,
            event_span=_join(first.event_span, second.event_span),
            channels=self._shared((first.channels or frozenset()) | (second.channels or frozenset())),
            cells=_join_cells(first, second),
        )

    def _shared(self, channels: frozenset[int] | None) -> frozenset[int]:
        """The same set where another block has an equal one: most blocks have the same channels."""
        channels = channels or frozenset()
        return self._channel_sets.setdefault(channels, channels)

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        if self._size_bytes is None:
            cells = sum(block.cells.size_bytes for block in self.blocks if block.cells is not None)
            sets = sum(_CHANNEL_BYTES * len(channels) for channels in self._channel_sets)
            self._size_bytes = _BLOCK_BYTES * len(self.blocks) + sets + cells
        return self._size_bytes


def _decode(
    entries: list[StreamEntry], layouts: layout.Plan, on_bad: OnBadEntry
) -> tuple[DecodedEntries, envelope_cells.EnvelopeCells | None]:
    decoded = session_samples.decode_entries(entries, layouts, on_bad)
    return decoded, envelope_cells.summarize(decoded.samples)


def _join(first: TimeSpan | None, second: TimeSpan | None) -> TimeSpan | None:
    return second if first is None else first.join(second)


def _join_cells(first: Block, second: Block) -> envelope_cells.EnvelopeCells | None:
    """None also where samples of one of them are not summed up."""
    if any(block.samples and block.cells is None for block in (first, second)):
        return None
    span = _join(first.sample_span, second.sample_span)
    channels = len((first.channels or frozenset()) | (second.channels or frozenset()))
    level = 0
    if span is not None:
        level = envelope_cells.level_of(first.samples + second.samples, channels, span.end_ns - span.start_ns)
    return envelope_cells.join([block.cells for block in (first, second) if block.cells is not None], level)


def _is_final(document: str) -> bool:
    try:
        return session.parse(document).get("state") in session.FINAL_STATES
    except errors.BadSessionJson:
        return False
