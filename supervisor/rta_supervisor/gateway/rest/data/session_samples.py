"""Samples and events as they are read of blocks, by channel. Pure: decodes entries, and puts parts together."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from rta_supervisor.gateway.rest.data.time_index import Block, BlockFilter, TimeSpan
from rta_wire import errors
from rta_wire.arrays import I64, U32, Array, Bools
from rta_wire.chunks import windows
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.codec import burst, decode, layout
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry

ChannelParts = dict[int, list[tuple[I64, Array]]]
"""Times and values of each channel, in parts and in any order."""

OnBadEntry = Callable[[errors.BadBurst], None]
"""Called with the reason for each entry that can't be decoded, and is left out."""


class ChannelMask(Protocol):
    """Says which channels are wanted."""

    def mask(self, channels: U32) -> Bools: ...


class DecodedEntries(NamedTuple):
    """The content of some entries."""

    samples: list[SampleColumns]
    """Those of a channel are together: entries are short, and there are many."""
    events: list[data_pb2.Event]
    session_json: list[str]


def decode_entries(entries: Sequence[StreamEntry], layouts: layout.Plan, on_bad: OnBadEntry) -> DecodedEntries:
    """The content of entries of one session, in either framing. An entry that can't be decoded is left out."""
    parts: list[decode.DecodedBursts] = []
    if entries:
        try:
            parts.append(decode.entries(entries, layouts))
        except errors.BadBurst:
            parts += _decode_one_by_one(entries, layouts, on_bad)
    return DecodedEntries(
        [columns.grouped() for part in parts for columns in part.samples.values()],
        [event for part in parts for event in part.events],
        [document for part in parts for document in part.session_json],
    )


def _decode_one_by_one(
    entries: Sequence[StreamEntry], layouts: layout.Plan, on_bad: OnBadEntry
) -> Iterable[decode.DecodedBursts]:
    for entry in entries:
        try:
            yield decode.entries([entry], layouts)
        except errors.BadBurst as error:
            # Other producers may put the size before the block.
            try:
                yield decode.entries([entry], layouts, framing=burst.Framing.SIZE_PREFIXED)
            except errors.BadBurst:
                on_bad(error)


def take_samples(
    parts: ChannelParts, columns: SampleColumns, selection: ChannelMask, start_ns: int, end_ns: int
) -> None:
    """Adds the samples of some channels and a range of time to `parts`."""
    if not len(columns.times_ns):
        return
    wanted = np.flatnonzero(selection.mask(columns.channels))
    is_inside = columns.times_ns.min() >= start_ns and columns.times_ns.max() <= end_ns
    offsets = columns.offsets
    for run in wanted.tolist():
        run_slice = slice(int(offsets[run]), int(offsets[run + 1]))
        times, values = columns.times_ns[run_slice], columns.values[run_slice]
        if not is_inside:
            mask = (times >= start_ns) & (times <= end_ns)
            if not mask.all():
                times, values = times[mask], values[mask]
        if len(times):
            parts.setdefault(int(columns.channels[run]), []).append((times, values))


def joined(parts: Sequence[tuple[I64, Array]]) -> Iterable[tuple[I64, Array]]:
    """The same samples in one part."""
    if len(parts) == 1:
        return parts
    times, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return [(times, values)]


def span_of(blocks: Sequence[Block], start_ns: int, end_ns: int, selection: ChannelSelection) -> TimeSpan | None:
    """From when to when blocks have samples of a range of time and some channels."""
    span: TimeSpan | None = None
    block_filter = BlockFilter(selection)
    for block in blocks:
        if block.sample_span is not None and block_filter.has(block, start_ns, end_ns):
            span = block.sample_span.join(span)
    return span


def in_time_order(parts: Sequence[tuple[I64, Array]]) -> tuple[I64, Array]:
    """All samples of one channel in one order."""
    [samples] = joined(parts)
    return windows.in_time_order(*samples)
