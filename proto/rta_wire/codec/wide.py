"""Encodes wide form as messages: a row for each time and a column for each channel.

Where times ascend and no value is null, nothing is sorted or copied: all channels share one set of packed deltas, and
their samples go from the columns to the compressor.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Indices
from rta_wire.codec import burst, channel_runs, columns, delta_times, row_messages, row_order, sample_messages
from rta_wire.codec import layout as codec_layout


class Table(NamedTuple):
    """The times of all rows, in the order in which they are sent."""

    times: I64
    order: Indices | None
    """The row of each time; None where rows keep their order."""
    first_row: int
    """The number of the first row, for errors."""
    in_time_order: bool


class ChannelSamples(NamedTuple):
    """The samples of one channel in the type of its layout."""

    channel: int
    layout: codec_layout.Layout
    values: Array
    row_indices: Indices | None
    """The row of each sample in the table; None where every row has one."""


def group_rows(channels: int, options: burst.EncodeOptions) -> int:
    """Rows that are cut together: as many samples as in long form, and at least so many that columns are long."""
    return max(limits.ENCODE_WIDE_ROWS, options.group_rows // max(1, channels))


def blocks(
    times: Any, values: Mapping[int, Any], layouts: codec_layout.Plan, options: burst.EncodeOptions, first_row: int
) -> Iterator[burst.MessageBlock]:
    """All messages of a table. Channels of one kind are in the order of `values`."""
    times_ns = columns.times_ns(times, first_row)
    order = None
    if options.in_time_order and (times_ns[1:] < times_ns[:-1]).any():
        order = np.argsort(times_ns, kind="stable")
        times_ns = times_ns[order]
    table = Table(times_ns, order, first_row, options.in_time_order)
    with_all_times: list[ChannelSamples] = []
    as_rows: list[ChannelSamples] = []
    by_layout: dict[codec_layout.Layout, list[ChannelSamples]] = {}
    for channel, array in values.items():
        samples = _channel_samples(channel, layouts.layout(channel), array, table)
        waiting = by_layout.setdefault(samples.layout, [])
        if not len(samples.values):
            continue
        if samples.layout.kind is codec_layout.Kind.ROW:
            as_rows.append(samples)
        elif samples.row_indices is None and samples.layout.kind is codec_layout.Kind.TIMESTAMPED:
            with_all_times.append(samples)
        else:
            waiting.append(samples)
            if sum(len(part.values) for part in waiting) >= limits.ENCODE_BLOCK_CELLS:
                yield from sample_messages.blocks([_typed_runs(waiting, table)])
                waiting.clear()
    if with_all_times:
        yield _shared_times_block(with_all_times, table)
    yield from sample_messages.blocks(_typed_runs(waiting, table) for waiting in by_layout.values() if waiting)
    yield from _row_blocks(as_rows, table)


def _channel_samples(channel: int, layout: codec_layout.Layout, array: Any, table: Table) -> ChannelSamples:
    if not 0 <= channel <= limits.CHANNEL_ID_MAX:
        raise errors.BadSamples(
            reason=f"channel {channel} is not between 0 and {limits.CHANNEL_ID_MAX}", channel=channel
        )
    if len(array) != len(table.times):
        raise errors.BadSamples(
            reason=f"channel {channel} has {len(array)} values for {len(table.times)} times", channel=channel
        )
    source = columns.sample_column(array, f"channel {channel}", (layout.type,))
    row_indices = None
    rows = table.order
    if source.valid is not None:
        row_indices = np.flatnonzero(source.valid if rows is None else source.valid[rows])
        rows = row_indices if rows is None else rows[row_indices]
    values = source.values if rows is None else source.values[rows]
    samples = columns.cast_samples(values, layout.type, rows, table.first_row)
    return ChannelSamples(channel, layout, samples, row_indices)


def _shared_times_block(channels: list[ChannelSamples], table: Table) -> burst.MessageBlock:
    """Messages of timestamped channels with a sample in every row: the deltas are packed once for all of them."""
    runs = channel_runs.split(_as_runs(table.times, _ONE_CHANNEL, [len(table.times)], table), limits.ENCODE_RUN_SAMPLES)
    packed = delta_times.pack(table.times, runs.starts, runs.lens)
    count = len(channels)
    ends = (runs.starts + runs.lens).tolist()
    ranges = list(zip(runs.starts.tolist(), ends, strict=True))
    buffers: list[memoryview] = []
    for samples in channels:
        view, width = sample_messages.sample_bytes(samples.values), samples.values.dtype.itemsize
        buffers += [view[first * width : last * width] for first, last in ranges]
    return sample_messages.timestamped_block(
        np.repeat(np.array([samples.channel for samples in channels], np.uint32), len(ranges)),
        sample_messages.Spans(*(np.tile(column, count) for column in sample_messages.spans(runs))),
        delta_times.PackedDeltas(np.tile(packed.scales, count), packed.pieces * count, np.tile(packed.sizes, count)),
        buffers,
    )


_ONE_CHANNEL: Final = np.zeros(1, np.uint32)


def _as_runs(times: I64, channels: U32, lens: list[int], table: Table) -> channel_runs.Runs:
    counts = np.array(lens, np.int64)
    return channel_runs.Runs(
        row_order.NO_ORDER, times, channels, np.cumsum(counts) - counts, counts, table.in_time_order
    )


def _typed_runs(channels: list[ChannelSamples], table: Table) -> sample_messages.TypedRuns:
    """Channels of one layout as runs, which are sorted already."""
    ids = np.array([samples.channel for samples in channels], np.uint32)
    times = [table.times if samples.row_indices is None else table.times[samples.row_indices] for samples in channels]
    runs = _as_runs(np.concatenate(times), ids, [len(samples.values) for samples in channels], table)
    values = np.concatenate([samples.values for samples in channels])
    return sample_messages.TypedRuns(runs, values, channels[0].layout)


def _row_blocks(channels: list[ChannelSamples], table: Table) -> Iterator[burst.MessageBlock]:
    """Messages of channels that are sent as rows. A few rows of the table at a time, since a cell takes several times
    the memory of its value."""
    step = max(1, limits.ENCODE_BLOCK_CELLS // max(1, len(channels)))
    for first in range(0, len(table.times) if channels else 0, step):
        parts = []
        for samples in channels:
            part = slice(first, first + step)
            times = table.times[part]
            if samples.row_indices is not None:
                part = slice(*np.searchsorted(samples.row_indices, (first, first + step)).tolist())
                times = table.times[samples.row_indices[part]]
            values = samples.values[part]
            parts.append(row_messages.cells(np.full(len(values), samples.channel, np.uint32), times, values))
        if any(len(cells.channels) for cells in parts):
            yield from row_messages.blocks(row_messages.join(parts))
