"""Which part of a session covers which time: blocks of entries or of archived rows, and in which steps they are read.

Pure. A block is what is read at once; it says from when to when its samples are, how many, and of which channels. A
question about a minute reads the blocks that have samples of it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from rta_wire.chunks import windows
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.chunks.envelope_cells import EnvelopeCells

STEP_SAMPLES: Final = 1_500_000
"""Samples that one step reads, about: 24 MB. A step has at least one window."""

STEP_EVENTS: Final = 50_000
"""Events that one step reads, about: each is an object of its own."""

STEP_FACTOR: Final = 2
"""Where one window has so many times more, its channels are read in several passes."""


class TimeSpan(msgspec.Struct, frozen=True):
    """A range of time, both ends included."""

    start_ns: int
    end_ns: int

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        return self.start_ns <= end_ns and self.end_ns >= start_ns

    def join(self, other: "TimeSpan | None") -> "TimeSpan":
        if other is None:
            return self
        return TimeSpan(min(self.start_ns, other.start_ns), max(self.end_ns, other.end_ns))


class Block(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Entries after one id, up to and with another. What has no samples or no events has no span of them."""

    after: str
    until: str
    first: str = ""
    """The first entry of all sessions that was there when they were read."""
    entries: int = 0
    """Of the stream, of all sessions."""
    samples: int = 0
    sample_span: TimeSpan | None = None
    events: int = 0
    event_span: TimeSpan | None = None
    channels: frozenset[int] | None = frozenset()
    """Channels that have samples; None where that is not known."""
    channel_range: tuple[int, int] | None = None
    """The lowest and the highest channel, where no more is known."""
    cells: EnvelopeCells | None = None
    """All samples, summed up; None where that was not done."""


class BlockFilter:
    """Finds blocks with samples of some channels. Blocks share their sets of channels, of which there are few: each set
    is looked through once, however many channels it has and a request names."""

    def __init__(self, selection: ChannelSelection) -> None:
        self._selection = selection
        self._has_some: dict[frozenset[int], bool] = {}

    def has(self, block: Block, start_ns: int, end_ns: int) -> bool:
        """Whether there may be samples of a range of time."""
        if block.sample_span is None or not block.sample_span.overlaps(start_ns, end_ns):
            return False
        if self._selection.is_everything:
            return True
        if block.channels is None:
            return block.channel_range is None or self._selection.overlaps(*block.channel_range)
        has_some = self._has_some.get(block.channels)
        if has_some is None:
            has_some = self._has_some[block.channels] = any(map(self._selection.has, block.channels))
        return has_some


class ReadStep(msgspec.Struct, frozen=True):
    """Whole windows that are read and sent together."""

    start_ns: int
    end_ns: int
    blocks: tuple[int, ...]
    """Indices of the blocks that have to be read."""
    passes: int = 1
    """In how many parts the channels are read, so that samples of one part fit into memory."""


def plan_samples(
    blocks: Sequence[Block], start_ns: int, end_ns: int, selection: ChannelSelection, *, share: float = 1.0
) -> Iterator[ReadStep]:
    """Steps for the samples of a range of time, in the order of time. Each window that the range touches is whole.
    `share`: of the samples that a step may read."""
    start_ns, _ = windows.bounds_ns(windows.window_of(start_ns), windows.window_of(start_ns))
    _, end_ns = windows.bounds_ns(windows.window_of(end_ns), windows.window_of(end_ns))
    block_filter = BlockFilter(selection)
    spans = [
        (index, block.sample_span, block.samples)
        for index, block in enumerate(blocks)
        if block.sample_span is not None and block_filter.has(block, start_ns, end_ns)
    ]
    yield from _plan(spans, start_ns, end_ns, STEP_SAMPLES * share)


def plan_events(blocks: Sequence[Block], start_ns: int, end_ns: int) -> Iterator[ReadStep]:
    """Steps for the events of a range of time, as `plan_samples` makes them."""
    start_ns, _ = windows.bounds_ns(windows.window_of(start_ns), windows.window_of(start_ns))
    _, end_ns = windows.bounds_ns(windows.window_of(end_ns), windows.window_of(end_ns))
    spans = [
        (index, block.event_span, block.events)
        for index, block in enumerate(blocks)
        if block.event_span is not None and block.event_span.overlaps(start_ns, end_ns)
    ]
    yield from _plan(spans, start_ns, end_ns, STEP_EVENTS)


_Span = tuple[int, TimeSpan, int]
"""The index of a block, its span and how many samples it has."""


def _plan(spans: Sequence[_Span], start_ns: int, end_ns: int, size: float) -> Iterator[ReadStep]:
    """Windows are taken together until their blocks have about as many samples as a step reads: `size`."""
    table = _SpanTable(spans)
    window, last = windows.window_of(start_ns), windows.window_of(end_ns)
    while (begin_ns := table.next_time(windows.bounds_ns(window, window)[0])) is not None:
        window = max(window, windows.window_of(begin_ns))
        if window > last:
            return
        first_ns, _ = windows.bounds_ns(window, window)
        stop = _last_window(table, first_ns, window, last, size)
        _, stop_ns = windows.bounds_ns(stop, stop)
        excess = table.estimate(first_ns, stop_ns) / (STEP_FACTOR * size)
        yield ReadStep(first_ns, stop_ns, table.members(first_ns, stop_ns), max(1, math.ceil(excess)))
        window = stop + 1


def _last_window(table: "_SpanTable", first_ns: int, window: int, last: int, size: float) -> int:
    """The last window of a step: as many as fit, and at least one."""
    low, high = window, last
    while low < high:
        middle = (low + high + 1) // 2
        if table.estimate(first_ns, windows.bounds_ns(middle, middle)[1]) <= size:
            low = middle
        else:
            high = middle - 1
    return low


class _SpanTable:
    """Spans of blocks as arrays. Times are doubles, which are exact enough for an estimate."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._indices = np.array([index for index, _, _ in spans], np.int64)
        self._starts = np.array([span.start_ns for _, span, _ in spans], np.int64)
        self._ends = np.array([span.end_ns for _, span, _ in spans], np.int64)
        lengths = self._ends.astype(np.float64) - self._starts + 1
        self._density = np.array([samples for _, _, samples in spans], np.float64) / lengths

    def next_time(self, from_ns: int) -> int | None:
        """The first time from a time on that a block may have samples of."""
        starts = self._starts[self._ends >= from_ns]
        return max(from_ns, int(starts.min())) if len(starts) else None

    def members(self, start_ns: int, end_ns: int) -> tuple[int, ...]:
        """The blocks that overlap a range of time, in the order of the stream."""
        return tuple(sorted(self._indices[(self._starts <= end_ns) & (self._ends >= start_ns)].tolist()))

    def estimate(self, start_ns: int, end_ns: int) -> float:
        """About how many samples are in a range of time."""
        overlaps = np.minimum(self._ends, end_ns).astype(np.float64) - np.maximum(self._starts, start_ns) + 1
        return float((np.maximum(overlaps, 0) * self._density).sum())
