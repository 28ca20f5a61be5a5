"""Runs of samples to messages: timestamped ones with packed deltas, periodic ones where the plan says so."""

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, U32, Array, Bools
from rta_wire.codec import burst, channel_runs, delta_times, memory_views, message_tags, row_messages
from rta_wire.codec import layout as codec_layout
from rta_wire.codec.protobuf import proto_fields


class TypedRuns(NamedTuple):
    """Samples of one layout in their final type, run by run."""

    runs: channel_runs.Runs
    values: Array
    layout: codec_layout.Layout


def blocks(parts: Iterable[TypedRuns]) -> Iterator[burst.MessageBlock]:
    """The messages that the layouts ask for. Row data comes last, since one message may hold channels of all types."""
    cells: list[row_messages.Cells] = []
    yield from _all_but_rows(parts, cells)
    if cells:
        yield from row_messages.blocks(row_messages.join(cells))


def _all_but_rows(parts: Iterable[TypedRuns], cells: list[row_messages.Cells]) -> Iterator[burst.MessageBlock]:
    """On its own, so that no part is still held while rows are made."""
    for these, made, layout in parts:
        if layout.kind is codec_layout.Kind.ROW:
            cells.append(row_messages.cells(np.repeat(these.channels, these.lens), these.times, made))
        elif layout.kind is codec_layout.Kind.PERIODIC:
            yield from encode_periodic(these, made, layout.interval_ns)
        else:
            yield encode_timestamped(these, made)


def sample_bytes(made: Array) -> memoryview:
    """The bytes of samples."""
    return memory_views.of_array(np.ascontiguousarray(made).view(np.uint8))


def encode_timestamped(these: channel_runs.Runs, made: Array) -> burst.MessageBlock:
    """One message per run, or several where a run is long."""
    these = channel_runs.split(these, limits.ENCODE_RUN_SAMPLES)
    width = made.dtype.itemsize
    buffers = memory_views.slices(sample_bytes(made), these.starts * width, these.lens * width)
    covers, packed = _covered(these) if these.shared_times is None else _covered_alike(these.shared_times)
    return timestamped_block(these.channels, covers, packed, buffers)


def _covered(these: channel_runs.Runs) -> tuple["Spans", delta_times.PackedDeltas]:
    return spans(these), delta_times.pack(these.times, these.starts, these.lens)


def _covered_alike(alike: channel_runs.SharedTimes) -> tuple["Spans", delta_times.PackedDeltas]:
    """Once for runs that have the same times."""
    covers, packed = _covered(alike.runs)
    which = alike.which
    pieces = [packed.pieces[one] for one in which.tolist()]
    return Spans(*(column[which] for column in covers)), delta_times.PackedDeltas(
        packed.scales[which], pieces, packed.sizes[which]
    )


class Spans(NamedTuple):
    """What each message covers."""

    samples: I64
    first_ns: I64
    start_ns: I64
    end_ns: I64


def spans(these: channel_runs.Runs) -> Spans:
    """What each run covers. The first sample is not the earliest where samples keep the order in which they came."""
    start_ns = np.minimum.reduceat(these.times, these.starts)
    end_ns = np.maximum.reduceat(these.times, these.starts)
    return Spans(these.lens, these.times[these.starts], start_ns, end_ns)


class TimestampedFrame(NamedTuple):
    """What a message holds besides its start, its deltas and its samples, and the size of all of it."""

    before_start: bytes
    before_deltas: bytes
    before_buffer: bytes
    size: int


@functools.lru_cache(maxsize=proto_fields.CACHED_FIELDS)
def timestamped_frame(
    channel: int, has_start: bool, scale: int, delta_bytes: int, buffer_bytes: int
) -> TimestampedFrame:
    """The frame of a message: the same again for each channel, group after group."""
    channel_field = proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
    before_deltas = proto_fields.cached_varint_field(
        message_tags.DELTAS_SCALE, scale
    ) + proto_fields.cached_varint_field(message_tags.DELTAS, delta_bytes)
    before_buffer = proto_fields.cached_varint_field(message_tags.BUFFER, buffer_bytes)
    body = len(channel_field) + proto_fields.FIXED64_FIELD_BYTES * has_start + len(before_deltas) + delta_bytes
    body += len(before_buffer) + buffer_bytes
    lead = message_tags.message_prefix(message_tags.ITEM_TIMESTAMPED, body)
    return TimestampedFrame(lead + channel_field, before_deltas, before_buffer, len(lead) + body)


def timestamped_block(
    channels: U32, covers: Spans, packed: delta_times.PackedDeltas, buffers: list[memoryview]
) -> burst.MessageBlock:
    """Messages from deltas that are packed already."""
    pieces: list[bytes | memoryview] = []
    sizes = []
    for channel, first_ns, scale, delta_bytes, deltas_, buffer in zip(
        channels.tolist(),
        covers.first_ns.tolist(),
        packed.scales.tolist(),
        packed.sizes.tolist(),
        packed.pieces,
        buffers,
        strict=True,
    ):
        frame = timestamped_frame(channel, first_ns != 0, scale, delta_bytes, len(buffer))
        start = proto_fields.fixed64_field(message_tags.START_TIMESTAMP, first_ns) if first_ns else b""
        pieces += (frame.before_start + start + frame.before_deltas, deltas_, frame.before_buffer, buffer)
        sizes.append(frame.size)
    return burst.MessageBlock(pieces, np.array(sizes), covers.samples, covers.start_ns, covers.end_ns)


def encode_periodic(these: channel_runs.Runs, made: Array, interval_ns: int) -> Iterator[burst.MessageBlock]:
    """One message per stretch of samples with one interval."""
    for some, first, last in channel_runs.portions(
        channel_runs.split(these, limits.ENCODE_RUN_SAMPLES), limits.ENCODE_BLOCK_CELLS
    ):
        stretches, intervals = _stretches(some, interval_ns)
        yield _periodic_block(stretches, made[first:last], intervals)


def _periodic_block(these: channel_runs.Runs, made: Array, intervals: I64) -> burst.MessageBlock:
    width = made.dtype.itemsize
    starts, lens = these.starts, these.lens
    first_ns = these.times[starts]
    pieces: list[bytes | memoryview] = []
    sizes = []
    for channel, time, interval, count, buffer in zip(
        these.channels.tolist(),
        first_ns.tolist(),
        intervals.tolist(),
        lens.tolist(),
        memory_views.slices(sample_bytes(made), starts * width, lens * width),
        strict=True,
    ):
        head = (
            proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
            + (proto_fields.fixed64_field(message_tags.START_TIMESTAMP, time) if time else b"")
            + (proto_fields.varint_field(message_tags.INTERVAL, interval) if interval else b"")
            + proto_fields.cached_varint_field(message_tags.SAMPLES, count)
            + proto_fields.cached_varint_field(message_tags.BUFFER, len(buffer))
        )
        # In one piece: where stretches are short, messages are many and views are larger than what they show.
        message = b"".join(
            (message_tags.message_prefix(message_tags.ITEM_PERIODIC, len(head) + len(buffer)), head, buffer)
        )
        pieces += (message, b"", b"", b"")
        sizes.append(len(message))
    # Intervals are never negative, so the first sample is the earliest.
    return burst.MessageBlock(pieces, np.array(sizes), lens, first_ns, these.times[starts + lens - 1])


def _stretches(these: channel_runs.Runs, interval_ns: int) -> tuple[channel_runs.Runs, I64]:
    """Cuts runs at gaps. Without a known interval each stretch takes the distance of its first two samples."""
    steps = np.diff(these.times)
    inside = np.ones(len(steps), np.bool_)
    inside[these.starts[1:] - 1] = False
    inside[steps < 0] = False
    if interval_ns:
        starts = np.flatnonzero(np.r_[True, ~inside | (steps != interval_ns)])
        lens = np.diff(starts, append=len(these.times))
        intervals = np.full(len(starts), interval_ns, np.int64)
    else:
        starts, lens, intervals = _found(steps, inside, len(these.times))
    owner = np.searchsorted(these.starts, starts, side="right") - 1
    return these._replace(channels=these.channels[owner], starts=starts, lens=lens), intervals


def _found(steps: I64, inside: Bools, count: int) -> tuple[I64, I64, I64]:
    """Walks over groups of equal steps. The step from one stretch to the next belongs to neither."""
    change = np.flatnonzero(np.r_[True, (steps[1:] != steps[:-1]) | ~inside[1:] | ~inside[:-1]][: len(steps)])
    stops = np.r_[change[1:], len(steps)][: len(change)]
    starts, lens, intervals = [], [], []
    sample = 0
    for first, stop, step, within in zip(
        change.tolist(), stops.tolist(), steps[change].tolist(), inside[change].tolist(), strict=True
    ):
        left = stop - max(first, sample)
        if left <= 0:
            continue
        length = left + 1 if within else 1
        starts.append(sample)
        lens.append(length)
        intervals.append(step if within else 0)
        sample += length
    if sample < count:
        starts.append(sample)
        lens.append(count - sample)
        intervals.append(0)
    return np.array(starts), np.array(lens), np.array(intervals)
