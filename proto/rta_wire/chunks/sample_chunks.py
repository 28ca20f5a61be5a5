"""Makes chunks of samples of one channel: lists of timestamped or periodic messages. Pure.

Samples come sorted, whole windows of them at a time: see `windows`.
"""

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, Array
from rta_wire.chunks import windows
from rta_wire.chunks.transfer import Chunk
from rta_wire.codec import delta_times, sample_messages
from rta_wire.codec.protobuf import memory_views, message_tags, proto_fields

LIST_ITEM: Final = 0x0A
"""The tag of the one field that every list of messages has."""

PERIODIC_HEAD_MAX_BYTES: Final = 2 + proto_fields.FIXED64_FIELD_BYTES + 11 + 2 + 2
"""Of a message with one sample: its length, its time, an interval of up to ten bytes, and the lengths of its parts."""


def timestamped(channel: int, times_ns: I64, values: Array) -> Iterator[Chunk]:
    """Chunks of messages with a time for each sample."""
    cuts = windows.cut(times_ns)
    starts = _item_starts(cuts)
    lens = np.diff(starts, append=len(times_ns))
    if not len(starts):
        return
    packed = delta_times.pack(times_ns, starts, lens)
    width = values.dtype.itemsize
    buffers = memory_views.slices(sample_messages.sample_bytes(values), starts * width, lens * width)
    channel_field = proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
    items: list[bytes] = []
    for first_ns, scale, deltas, buffer in zip(
        times_ns[starts].tolist(), packed.scales.tolist(), packed.pieces, buffers, strict=True
    ):
        start = proto_fields.fixed64_field(message_tags.START_TIMESTAMP, first_ns) if first_ns else b""
        before_deltas = proto_fields.cached_varint_field(message_tags.DELTAS_SCALE, scale)
        before_deltas += proto_fields.cached_varint_field(message_tags.DELTAS, len(deltas))
        before_buffer = proto_fields.cached_varint_field(message_tags.BUFFER, len(buffer))
        size = len(channel_field) + len(start) + len(before_deltas) + len(deltas) + len(before_buffer) + len(buffer)
        prefix = proto_fields.cached_varint_field(LIST_ITEM, size)
        items.append(b"".join((prefix, channel_field, start, before_deltas, deltas, before_buffer, buffer)))
    yield from _chunks(channel, times_ns, cuts, starts, items)


def periodic(channel: int, times_ns: I64, values: Array, interval_ns: int) -> Iterator[Chunk]:
    """Chunks of messages with an interval each. Where the interval is 0, it is the most frequent one of each chunk."""
    channel_field = proto_fields.optional_varint_field(message_tags.CHANNEL_ID, channel)
    width = values.dtype.itemsize
    # Samples of one time are a message each.
    cuts = windows.cut(times_ns, sample_bytes=PERIODIC_HEAD_MAX_BYTES + len(channel_field) + width)
    data = sample_messages.sample_bytes(values)
    for first, last in itertools.pairwise(cuts):
        times = times_ns[first:last]
        steps = np.diff(times)
        interval = interval_ns or _most_frequent(steps)
        breaks = np.flatnonzero(steps != interval) + 1
        items: list[bytes | memoryview] = []
        for start, stop in _split(breaks.tolist(), len(times)):
            head = b"".join(
                (
                    channel_field,
                    proto_fields.fixed64_field(message_tags.START_TIMESTAMP, int(times[start]))
                    if times[start]
                    else b"",
                    proto_fields.optional_varint_field(message_tags.INTERVAL, interval),
                    proto_fields.cached_varint_field(message_tags.SAMPLES, stop - start),
                    proto_fields.cached_varint_field(message_tags.BUFFER, (stop - start) * width),
                )
            )
            buffer = data[(first + start) * width : (first + stop) * width]
            items += (proto_fields.cached_varint_field(LIST_ITEM, len(head) + len(buffer)), head, buffer)
        yield Chunk((channel,), int(times[0]), int(times[-1]), b"".join(items))


def _item_starts(cuts: list[int]) -> I64:
    """Where items begin: at each cut, and after every so many samples."""
    step = limits.CHUNK_ITEM_SAMPLES
    parts = [np.arange(first, last, step, dtype=np.int64) for first, last in itertools.pairwise(cuts)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _chunks(channel: int, times_ns: I64, cuts: list[int], starts: I64, items: list[bytes]) -> Iterator[Chunk]:
    item_cuts = np.searchsorted(starts, cuts).tolist()
    for at in range(len(cuts) - 1):
        payload = b"".join(items[item_cuts[at] : item_cuts[at + 1]])
        yield Chunk((channel,), int(times_ns[cuts[at]]), int(times_ns[cuts[at + 1] - 1]), payload)


def _split(breaks: list[int], count: int) -> Iterator[tuple[int, int]]:
    for first, last in zip([0, *breaks], [*breaks, count], strict=True):
        for start in range(first, last, limits.CHUNK_ITEM_SAMPLES):
            yield start, min(start + limits.CHUNK_ITEM_SAMPLES, last)


def _most_frequent(steps: I64) -> int:
    """The most frequent step above 0, of several the shortest; 0 where there is none."""
    distinct, counts = np.unique(steps[steps > 0], return_counts=True)
    return int(distinct[np.argmax(counts)]) if len(distinct) else 0
