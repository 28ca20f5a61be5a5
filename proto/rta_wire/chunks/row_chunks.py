"""Makes chunks of row data: rows of one set of channels each, put together again from samples of single channels. Pure.

A row is what channels have at one time, channels ascending. Where a channel has several samples at one time, there are
as many rows.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, U8, U32, Array
from rta_wire.chunks import sample_chunks, windows
from rta_wire.chunks.transfer import Chunk
from rta_wire.codec import row_messages
from rta_wire.codec.protobuf import memory_views, message_tags, proto_fields, varint


class SortedSamples(NamedTuple):
    """Sorted samples of one channel."""

    channel: int
    times_ns: I64
    values: Array


class _Rows(NamedTuple):
    """Rows of one set of channels, by time, with the bytes of their samples."""

    channels: tuple[int, ...]
    times_ns: I64
    buffers: list[memoryview]


def rows(samples: Sequence[SortedSamples]) -> Iterator[Chunk]:
    """Chunks of the rows that samples of several channels make, for whole windows."""
    parts = [part for part in samples if len(part.times_ns)]
    if not parts:
        return
    cells = row_messages.join(
        [
            row_messages.cells(np.full(len(part.times_ns), part.channel, np.uint32), part.times_ns, part.values)
            for part in parts
        ]
    )
    for row_set in _by_set(cells):
        yield from _chunks(row_set)


def _by_set(cells: row_messages.Cells) -> list[_Rows]:
    """The rows of each set of channels, sets ascending."""
    order, starts = row_messages.order_by_message(cells)
    channels, times, widths = cells.channels[order], cells.times[order], cells.widths[order]
    data = row_messages.compact(cells.slots[order], widths)
    sizes = np.add.reduceat(widths, starts, dtype=np.int64)
    buffers = memory_views.split(data, sizes)
    by_set: dict[bytes, list[int]] = {}
    ids = memory_views.split(_bytes_of(channels), np.diff(starts, append=len(order)) * channels.itemsize)
    for row, key in enumerate(ids):
        by_set.setdefault(bytes(key), []).append(row)
    row_times = times[starts]
    sets = {tuple(np.frombuffer(key, np.uint32).tolist()): members for key, members in by_set.items()}
    return [
        _Rows(channel_set, row_times[members], [buffers[row] for row in members])
        for channel_set, members in sorted(sets.items())
    ]


def _bytes_of(channels: U32) -> U8:
    return np.ascontiguousarray(channels).view(np.uint8)


def _chunks(row_set: _Rows) -> Iterator[Chunk]:
    ids = np.array(row_set.channels, np.uint32)
    packed_ids = varint.encode(ids, varint.widths(ids)).tobytes()
    head = proto_fields.cached_varint_field(message_tags.ROW_CHANNEL_IDS, len(packed_ids)) + packed_ids
    before_buffer = proto_fields.cached_varint_field(message_tags.ROW_BUFFER, len(row_set.buffers[0]))
    row_bytes = len(head) + len(before_buffer) + len(row_set.buffers[0]) + proto_fields.FIXED64_FIELD_BYTES
    row_bytes += len(proto_fields.varint_field(sample_chunks.LIST_ITEM, row_bytes))
    max_rows = max(1, min(limits.CHUNK_LIST_BYTES // row_bytes, limits.CHUNK_SAMPLES))
    cuts = windows.cut(row_set.times_ns, max_rows, sample_bytes=row_bytes)
    times = row_set.times_ns.tolist()
    for first, last in itertools.pairwise(cuts):
        pieces: list[bytes | memoryview] = []
        for time_ns, buffer in zip(times[first:last], row_set.buffers[first:last], strict=True):
            stamp = proto_fields.fixed64_field(message_tags.ROW_TIMESTAMP, time_ns) if time_ns else b""
            size = len(head) + len(stamp) + len(before_buffer) + len(buffer)
            pieces += (
                proto_fields.cached_varint_field(sample_chunks.LIST_ITEM, size),
                *(head, stamp, before_buffer, buffer),
            )
        yield Chunk(row_set.channels, times[first], times[last - 1], b"".join(pieces))
