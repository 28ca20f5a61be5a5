"""Encodes runs of samples as messages of the kind of their layout: timestamped in packed deltas, periodic or rows."""

import functools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, U32, Array, Bools
from rta_wire.codec import burst, channel_runs, delta_times, row_messages
from rta_wire.codec import layout as codec_layout
from rta_wire.codec.protobuf import memory_views, message_tags, proto_fields


class TypedRuns(NamedTuple):
    """Samples of one layout in the type of the layout, run by run."""

    runs: channel_runs.Runs
    values: Array
    layout: codec_layout.Layout


def blocks(parts: Iterable[TypedRuns]) -> Iterator[burst.MessageBlock]:
    """The messages of all parts. Row data comes last, since one message may hold channels of all types."""
    cells: list[row_messages.Cells] = []
    yield from _all_but_rows(parts, cells)
    if cells:
        yield from row_messages.blocks(row_messages.join(cells))


def _all_but_rows(parts: Iterable[TypedRuns], cells: list[row_messages.Cells]) -> Iterator[burst.MessageBlock]:
    """The messages of all parts but row data, whose cells are added to `cells`. A function of its own, so that no part
    is still in memory while rows are made."""
    for runs, samples, layout in parts:
        if layout.kind is codec_layout.Kind.ROW:
            cells.append(row_messages.cells(np.repeat(runs.channels, runs.lens), runs.times, samples))
        elif layout.kind is codec_layout.Kind.PERIODIC:
            yield from encode_periodic(runs, samples, layout.interval_ns)
        else:
            yield encode_timestamped(runs, samples)


def sample_bytes(samples: Array) -> memoryview:
    """The bytes of samples."""
    return memory_views.of_array(np.ascontiguousarray(samples).view(np.uint8))


def encode_timestamped(runs: channel_runs.Runs, samples: Array) -> burst.MessageBlock:
    """One message for each run, or several where a run is long."""
    runs = channel_runs.split(runs, limits.ENCODE_RUN_SAMPLES)
    width = samples.dtype.itemsize
    buffers = memory_views.slices(sample_bytes(samples), runs.starts * width, runs.lens * width)
    run_spans, packed = _pack_times(runs) if runs.shared_times is None else _pack_shared_times(runs.shared_times)
    return timestamped_block(runs.channels, run_spans, packed, buffers)


def _pack_times(runs: channel_runs.Runs) -> tuple["Spans", delta_times.PackedDeltas]:
    return spans(runs), delta_times.pack(runs.times, runs.starts, runs.lens)


def _pack_shared_times(shared: channel_runs.SharedTimes) -> tuple["Spans", delta_times.PackedDeltas]:
    """Packs times that several runs share once."""
    distinct_spans, packed = _pack_times(shared.runs)
    indices = shared.indices
    pieces = [packed.pieces[index] for index in indices.tolist()]
    return Spans(*(column[indices] for column in distinct_spans)), delta_times.PackedDeltas(
        packed.scales[indices], pieces, packed.sizes[indices]
    )


class Spans(NamedTuple):
    """For each message the number of its samples, the time of the first one, and the range of all."""

    samples: I64
    first_ns: I64
    start_ns: I64
    end_ns: I64


def spans(runs: channel_runs.Runs) -> Spans:
    """Samples and times of each run. The first sample is the earliest only where samples are sorted by time."""
    start_ns = np.minimum.reduceat(runs.times, runs.starts)
    end_ns = np.maximum.reduceat(runs.times, runs.starts)
    return Spans(runs.lens, runs.times[runs.starts], start_ns, end_ns)


class TimestampedFrame(NamedTuple):
    """The bytes of a message between its start time, its deltas and its samples, and the size of the whole message."""

    before_start: bytes
    before_deltas: bytes
    before_buffer: bytes
    size: int


START_TIME_TAG: Final = bytes((message_tags.START_TIMESTAMP,))


@functools.lru_cache(maxsize=proto_fields.CACHED_FIELDS)
def timestamped_frame(
    channel: int, has_start: bool, scale: int, delta_bytes: int, buffer_bytes: int
) -> TimestampedFrame:
    """The frame of a message. Cached: it is the same for each channel in group after group."""
    channel_field = proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
    before_deltas = proto_fields.cached_varint_field(
        message_tags.DELTAS_SCALE, scale
    ) + proto_fields.cached_varint_field(message_tags.DELTAS, delta_bytes)
    before_buffer = proto_fields.cached_varint_field(message_tags.BUFFER, buffer_bytes)
    body = len(channel_field) + proto_fields.FIXED64_FIELD_BYTES * has_start + len(before_deltas) + delta_bytes
    body += len(before_buffer) + buffer_bytes
    prefix = message_tags.message_prefix(message_tags.ITEM_TIMESTAMPED, body)
    return TimestampedFrame(prefix + channel_field, before_deltas, before_buffer, len(prefix) + body)


def timestamped_block(
    channels: U32, message_spans: Spans, packed: delta_times.PackedDeltas, buffers: list[memoryview]
) -> burst.MessageBlock:
    """Messages from packed deltas and sample buffers."""
    pieces: list[bytes | memoryview] = []
    sizes = []
    for channel, first_ns, scale, delta_bytes, deltas, buffer in zip(
        channels.tolist(),
        message_spans.first_ns.tolist(),
        packed.scales.tolist(),
        packed.sizes.tolist(),
        packed.pieces,
        buffers,
        strict=True,
    ):
        frame = timestamped_frame(channel, first_ns != 0, scale, delta_bytes, len(buffer))
        start = proto_fields.fixed64_field(message_tags.START_TIMESTAMP, first_ns) if first_ns else b""
        pieces += (frame.before_start + start + frame.before_deltas, deltas, frame.before_buffer, buffer)
        sizes.append(frame.size)
    return burst.MessageBlock(
        pieces, np.array(sizes), message_spans.samples, message_spans.start_ns, message_spans.end_ns
    )


def encode_periodic(runs: channel_runs.Runs, samples: Array, interval_ns: int) -> Iterator[burst.MessageBlock]:
    """One message for each series of samples with one interval."""
    for portion, first, last in channel_runs.portions(
        channel_runs.split(runs, limits.ENCODE_RUN_SAMPLES), limits.ENCODE_BLOCK_CELLS
    ):
        series, intervals = _split_by_interval(portion, interval_ns)
        yield _periodic_block(series, samples[first:last], intervals)


def _periodic_block(series: channel_runs.Runs, samples: Array, intervals: I64) -> burst.MessageBlock:
    width = samples.dtype.itemsize
    starts, lens = series.starts, series.lens
    first_ns = series.times[starts]
    pieces: list[bytes | memoryview] = []
    sizes = []
    for channel, time, interval, count, buffer in zip(
        series.channels.tolist(),
        first_ns.tolist(),
        intervals.tolist(),
        lens.tolist(),
        memory_views.slices(sample_bytes(samples), starts * width, lens * width),
        strict=True,
    ):
        head = (
            proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
            + (proto_fields.fixed64_field(message_tags.START_TIMESTAMP, time) if time else b"")
            + (proto_fields.varint_field(message_tags.INTERVAL, interval) if interval else b"")
            + proto_fields.cached_varint_field(message_tags.SAMPLES, count)
            + proto_fields.cached_varint_field(message_tags.BUFFER, len(buffer))
        )
        # In one piece: where series are short, messages are many and views are larger than their bytes.
        message = b"".join(
            (message_tags.message_prefix(message_tags.ITEM_PERIODIC, len(head) + len(buffer)), head, buffer)
        )
        pieces += (message, b"", b"", b"")
        sizes.append(len(message))
    # Intervals are never negative, so the first sample is the earliest.
    return burst.MessageBlock(pieces, np.array(sizes), lens, first_ns, series.times[starts + lens - 1])


def _split_by_interval(runs: channel_runs.Runs, interval_ns: int) -> tuple[channel_runs.Runs, I64]:
    """Cuts runs into series of one interval each: the given one, or where that is 0 the distance of the first two
    samples of a series."""
    steps = np.diff(runs.times)
    is_inside = np.ones(len(steps), np.bool_)
    is_inside[runs.starts[1:] - 1] = False
    is_inside[steps < 0] = False
    if interval_ns:
        starts = np.flatnonzero(np.r_[True, ~is_inside | (steps != interval_ns)])
        lens = np.diff(starts, append=len(runs.times))
        intervals = np.full(len(starts), interval_ns, np.int64)
    else:
        starts, lens, intervals = _find_intervals(steps, is_inside, len(runs.times))
    owner = np.searchsorted(runs.starts, starts, side="right") - 1
    return runs._replace(channels=runs.channels[owner], starts=starts, lens=lens), intervals


def _find_intervals(steps: I64, is_inside: Bools, count: int) -> tuple[I64, I64, I64]:
    """Starts, lengths and intervals of series, from groups of equal steps. The step between series is in neither."""
    change = np.flatnonzero(np.r_[True, (steps[1:] != steps[:-1]) | ~is_inside[1:] | ~is_inside[:-1]][: len(steps)])
    stops = np.r_[change[1:], len(steps)][: len(change)]
    starts, lens, intervals = [], [], []
    sample = 0
    for first, stop, step, is_inside_run in zip(
        change.tolist(), stops.tolist(), steps[change].tolist(), is_inside[change].tolist(), strict=True
    ):
        steps_left = stop - max(first, sample)
        if steps_left <= 0:
            continue
        length = steps_left + 1 if is_inside_run else 1
        starts.append(sample)
        lens.append(length)
        intervals.append(step if is_inside_run else 0)
        sample += length
    if sample < count:
        starts.append(sample)
        lens.append(count - sample)
        intervals.append(0)
    return np.array(starts), np.array(lens), np.array(intervals)
