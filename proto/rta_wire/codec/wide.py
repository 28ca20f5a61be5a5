"""Wide form: a row per time and a column per channel. Nothing is sorted or gathered where times ascend and no value is
missing: all channels share one set of packed deltas, and their samples go from the columns to the compressor directly.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Indices
from rta_wire.codec import burst, channel_runs, columns, delta_times, row_messages, row_order, sample_messages
from rta_wire.codec import layout as codec_layout


class Table(NamedTuple):
    """The times of all rows in the order in which they are sent, and which row each was; None if none moved."""

    times: I64
    order: Indices | None
    first_row: int
    in_time_order: bool


class ChannelSamples(NamedTuple):
    """The samples of one channel in their final type, and where in the table they are; None where they are all."""

    channel: int
    layout: codec_layout.Layout
    values: Array
    row_indices: Indices | None


def group_rows(channels: int, options: burst.EncodeOptions) -> int:
    """Rows that are cut together: as many samples as in long form, and enough that a column is worth its handling."""
    return max(limits.ENCODE_WIDE_ROWS, options.group_rows // max(1, channels))


def blocks(
    times: Any, values: Mapping[int, Any], layouts: codec_layout.Plan, options: burst.EncodeOptions, first_row: int
) -> Iterator[burst.MessageBlock]:
    """All messages of a table, the channels in the order of `values` within each kind."""
    times_ns = columns.times_ns(times, first_row)
    order = None
    if options.in_time_order and (times_ns[1:] < times_ns[:-1]).any():
        order = np.argsort(times_ns, kind="stable")
        times_ns = times_ns[order]
    table = Table(times_ns, order, first_row, options.in_time_order)
    shared: list[ChannelSamples] = []
    rowed: list[ChannelSamples] = []
    apart: dict[codec_layout.Layout, list[ChannelSamples]] = {}
    for channel, array in values.items():
        series = _series(channel, layouts.layout(channel), array, table)
        some = apart.setdefault(series.layout, [])
        if not len(series.values):
            continue
        if series.layout.kind is codec_layout.Kind.ROW:
            rowed.append(series)
        elif series.row_indices is None and series.layout.kind is codec_layout.Kind.TIMESTAMPED:
            shared.append(series)
        else:
            some.append(series)
            if sum(len(one.values) for one in some) >= limits.ENCODE_BLOCK_CELLS:
                yield from sample_messages.blocks([_part(some, table)])
                some.clear()
    if shared:
        yield _shared(shared, table)
    yield from sample_messages.blocks(_part(some, table) for some in apart.values() if some)
    yield from _rowed(rowed, table)


def _series(channel: int, layout: codec_layout.Layout, array: Any, table: Table) -> ChannelSamples:
    if not 0 <= channel <= limits.CHANNEL_ID_MAX:
        raise errors.BadSamples(
            reason=f"channel {channel} is not between 0 and {limits.CHANNEL_ID_MAX}", channel=channel
        )
    if len(array) != len(table.times):
        raise errors.BadSamples(
            reason=f"channel {channel} has {len(array)} values for {len(table.times)} times", channel=channel
        )
    source = columns.column(array, f"channel {channel}")
    spots = None
    rows_ = table.order
    if source.valid is not None:
        spots = np.flatnonzero(source.valid if rows_ is None else source.valid[rows_])
        rows_ = spots if rows_ is None else rows_[spots]
    values = source.values if rows_ is None else source.values[rows_]
    return ChannelSamples(channel, layout, columns.cast_samples(values, layout.type, rows_, table.first_row), spots)


def _shared(series: list[ChannelSamples], table: Table) -> burst.MessageBlock:
    """Timestamped channels without gaps: one set of deltas for all of them."""
    parts = channel_runs.split(
        _as_runs(table.times, _ONE_CHANNEL, [len(table.times)], table), limits.ENCODE_RUN_SAMPLES
    )
    packed = delta_times.pack(table.times, parts.starts, parts.lens)
    count = len(series)
    ends = (parts.starts + parts.lens).tolist()
    spans = list(zip(parts.starts.tolist(), ends, strict=True))
    buffers: list[memoryview] = []
    for one in series:
        view, width = sample_messages.sample_bytes(one.values), one.values.dtype.itemsize
        buffers += [view[first * width : last * width] for first, last in spans]
    return sample_messages.timestamped_block(
        np.repeat(np.array([one.channel for one in series], np.uint32), len(spans)),
        sample_messages.Spans(*(np.tile(column, count) for column in sample_messages.spans(parts))),
        delta_times.PackedDeltas(np.tile(packed.scales, count), packed.pieces * count, np.tile(packed.sizes, count)),
        buffers,
    )


_ONE_CHANNEL: Final = np.zeros(1, np.uint32)


def _as_runs(times: I64, channels: U32, lens: list[int], table: Table) -> channel_runs.Runs:
    counts = np.array(lens, np.int64)
    return channel_runs.Runs(
        row_order.NO_ORDER, times, channels, np.cumsum(counts) - counts, counts, table.in_time_order
    )


def _part(series: list[ChannelSamples], table: Table) -> sample_messages.TypedRuns:
    """Channels of one layout with times of their own, or of another kind: as runs that are sorted already."""
    channels = np.array([one.channel for one in series], np.uint32)
    times = [table.times if one.row_indices is None else table.times[one.row_indices] for one in series]
    these = _as_runs(np.concatenate(times), channels, [len(one.values) for one in series], table)
    return sample_messages.TypedRuns(these, np.concatenate([one.values for one in series]), series[0].layout)


def _rowed(series: list[ChannelSamples], table: Table) -> Iterator[burst.MessageBlock]:
    """Channels that travel as rows: some rows of the table at a time, since a cell takes several times its value."""
    step = max(1, limits.ENCODE_BLOCK_CELLS // max(1, len(series)))
    for first in range(0, len(table.times) if series else 0, step):
        cells = []
        for one in series:
            part = slice(first, first + step)
            times = table.times[part]
            if one.row_indices is not None:
                part = slice(*np.searchsorted(one.row_indices, (first, first + step)).tolist())
                times = table.times[one.row_indices[part]]
            made = one.values[part]
            cells.append(row_messages.cells(np.full(len(made), one.channel, np.uint32), times, made))
        if any(len(some.channels) for some in cells):
            yield from row_messages.blocks(row_messages.join(cells))
