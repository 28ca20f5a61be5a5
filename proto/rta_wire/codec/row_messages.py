"""Row data: one sample of each of several channels at one time, in one packed buffer."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, U8, U32, Array, Bools, Indices
from rta_wire.codec import burst, memory_views, message_tags
from rta_wire.codec.protobuf import proto_fields, varint

SLOT_BYTES: Final = 8
"""Room for a sample of any type."""


class Cells(NamedTuple):
    """Samples of channels that travel as rows, in any order: `slots` holds the bytes, `widths` says how many."""

    channels: U32
    times: I64
    slots: U8
    widths: U8


def cells(channels: U32, times: I64, made: Array) -> Cells:
    """Samples of one type, each with its channel and time."""
    width = made.dtype.itemsize
    slots = np.zeros((len(made), SLOT_BYTES), np.uint8)
    slots[:, :width] = np.ascontiguousarray(made).view(np.uint8).reshape(-1, width)
    return Cells(channels, times, slots, np.full(len(made), width, np.uint8))


def join(parts: list[Cells]) -> Cells:
    """Cells of several types together."""
    if len(parts) == 1:
        return parts[0]
    return Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def blocks(these: Cells) -> Iterator[burst.MessageBlock]:
    """One message per time, its channels ascending. A channel's second sample at one time starts another message."""
    order, starts = _messages(these)
    starts = _chunks(starts, len(order))
    first = 0
    while first < len(starts):
        # As many messages as have about so many cells, but at least one.
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + limits.ENCODE_BLOCK_CELLS)))
        stop = starts[last] if last < len(starts) else len(order)
        yield _block(these, order[starts[first] : stop], starts[first:last] - starts[first])
        first = last


def _block(these: Cells, order: Indices, starts: I64) -> burst.MessageBlock:
    channels, times, widths = these.channels[order], these.times[order], these.widths[order]
    id_widths = varint.widths(channels)
    id_sizes = np.add.reduceat(id_widths, starts, dtype=np.int64)
    buffer_sizes = np.add.reduceat(widths, starts, dtype=np.int64)
    ids = memory_views.split(varint.encode(channels, id_widths), id_sizes)
    buffers = memory_views.split(_compact(these.slots[order], widths), buffer_sizes)
    pieces: list[bytes | memoryview] = []
    sizes = []
    for time, id_part, buffer in zip(times[starts].tolist(), ids, buffers, strict=True):
        head = proto_fields.cached_varint_field(message_tags.ROW_CHANNEL_IDS, len(id_part))
        middle = proto_fields.fixed64_field(message_tags.ROW_TIMESTAMP, time) if time else b""
        middle += proto_fields.cached_varint_field(message_tags.ROW_BUFFER, len(buffer))
        rest_bytes = len(id_part) + len(middle) + len(buffer)
        before = message_tags.message_prefix(message_tags.ITEM_ROW, len(head) + rest_bytes)
        message = b"".join((before, head, id_part, middle, buffer))
        pieces += (message, b"", b"", b"")
        sizes.append(len(message))
    lens = np.diff(starts, append=len(order))
    return burst.MessageBlock(pieces, np.array(sizes), lens, times[starts], times[starts])


def _messages(these: Cells) -> tuple[Indices, I64]:
    """The order of cells by time and channel, and where messages start in it."""
    order = np.lexsort((these.channels, these.times))
    channels, times = these.channels[order], these.times[order]
    later = times[1:] != times[:-1]
    same = ~later & (channels[1:] == channels[:-1])
    if same.any():
        again = _repeats(same)
        sort = np.lexsort((channels, again, times))
        order, times, again = order[sort], times[sort], again[sort]
        later = (times[1:] != times[:-1]) | (again[1:] != again[:-1])
    return order, np.flatnonzero(np.r_[True, later])


def _repeats(same: Bools) -> I64:
    """How many cells right before each are of the same channel and time; `same` says it of neighbours."""
    firsts = np.flatnonzero(np.r_[True, ~same])
    lens = np.diff(firsts, append=len(same) + 1)
    return np.arange(len(same) + 1) - np.repeat(firsts, lens)


def _chunks(starts: I64, count: int) -> I64:
    """Rows with more channels than one message should have go on in another of the same time."""
    lens = np.diff(starts, append=count)
    parts = -(-lens // limits.ENCODE_RUN_SAMPLES)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.asarray(np.repeat(starts, parts) + part * limits.ENCODE_RUN_SAMPLES)


def _compact(table: U8, widths: U8) -> U8:
    return np.asarray(table[np.arange(SLOT_BYTES, dtype=np.uint8) < widths[:, None]])
