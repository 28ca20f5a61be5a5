"""Encodes messages of row data: one sample of each of several channels at one time, in one packed buffer."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, U8, U32, Array, Bools, Indices
from rta_wire.codec import burst
from rta_wire.codec.protobuf import memory_views, message_tags, proto_fields, varint

SLOT_BYTES: Final = 8
"""Size of a slot: room for a sample of any type."""


class Cells(NamedTuple):
    """Samples that are sent as rows, in any order. `slots` holds their bytes, of which the first `widths` count."""

    channels: U32
    times: I64
    slots: U8
    widths: U8


def cells(channels: U32, times: I64, samples: Array) -> Cells:
    """Cells of samples of one type."""
    width = samples.dtype.itemsize
    slots = np.zeros((len(samples), SLOT_BYTES), np.uint8)
    slots[:, :width] = np.ascontiguousarray(samples).view(np.uint8).reshape(-1, width)
    return Cells(channels, times, slots, np.full(len(samples), width, np.uint8))


def join(parts: list[Cells]) -> Cells:
    """The cells of several types as one."""
    if len(parts) == 1:
        return parts[0]
    return Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def blocks(all_cells: Cells) -> Iterator[burst.MessageBlock]:
    """One message for each time, its channels ascending. A second sample of a channel at a time starts another one."""
    order, starts = order_by_message(all_cells)
    starts = _split_long(starts, len(order))
    first = 0
    while first < len(starts):
        # Messages with about as many cells as a block has, but at least one.
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + limits.ENCODE_BLOCK_CELLS)))
        stop = starts[last] if last < len(starts) else len(order)
        yield _block(all_cells, order[starts[first] : stop], starts[first:last] - starts[first])
        first = last


def _block(all_cells: Cells, order: Indices, starts: I64) -> burst.MessageBlock:
    """Messages of the cells in `order`, each beginning at one of `starts`."""
    channels, times, widths = all_cells.channels[order], all_cells.times[order], all_cells.widths[order]
    id_widths = varint.widths(channels)
    id_sizes = np.add.reduceat(id_widths, starts, dtype=np.int64)
    buffer_sizes = np.add.reduceat(widths, starts, dtype=np.int64)
    ids = memory_views.split(varint.encode(channels, id_widths), id_sizes)
    buffers = memory_views.split(compact(all_cells.slots[order], widths), buffer_sizes)
    pieces: list[bytes | memoryview] = []
    sizes = []
    for time, id_part, buffer in zip(times[starts].tolist(), ids, buffers, strict=True):
        head = proto_fields.cached_varint_field(message_tags.ROW_CHANNEL_IDS, len(id_part))
        middle = proto_fields.fixed64_field(message_tags.ROW_TIMESTAMP, time) if time else b""
        middle += proto_fields.cached_varint_field(message_tags.ROW_BUFFER, len(buffer))
        rest_bytes = len(id_part) + len(middle) + len(buffer)
        prefix = message_tags.message_prefix(message_tags.ITEM_ROW, len(head) + rest_bytes)
        message = b"".join((prefix, head, id_part, middle, buffer))
        pieces += (message, b"", b"", b"")
        sizes.append(len(message))
    lens = np.diff(starts, append=len(order))
    return burst.MessageBlock(pieces, np.array(sizes), lens, times[starts], times[starts])


def order_by_message(all_cells: Cells) -> tuple[Indices, I64]:
    """The order of cells by time and channel, and where messages start in it."""
    order = np.lexsort((all_cells.channels, all_cells.times))
    channels, times = all_cells.channels[order], all_cells.times[order]
    is_later = times[1:] != times[:-1]
    is_repeated = ~is_later & (channels[1:] == channels[:-1])
    if is_repeated.any():
        repeats = _count_repeats(is_repeated)
        by_repeat = np.lexsort((channels, repeats, times))
        order, times, repeats = order[by_repeat], times[by_repeat], repeats[by_repeat]
        is_later = (times[1:] != times[:-1]) | (repeats[1:] != repeats[:-1])
    return order, np.flatnonzero(np.r_[True, is_later])


def _count_repeats(is_repeated: Bools) -> I64:
    """For each cell how many cells of its channel and time come right before it. `is_repeated` says for each cell but
    the first whether it has the channel and time of the one before."""
    firsts = np.flatnonzero(np.r_[True, ~is_repeated])
    lens = np.diff(firsts, append=len(is_repeated) + 1)
    return np.arange(len(is_repeated) + 1) - np.repeat(firsts, lens)


def _split_long(starts: I64, count: int) -> I64:
    """Starts of messages, where rows with too many channels for one message go on in another one."""
    lens = np.diff(starts, append=count)
    parts = -(-lens // limits.ENCODE_RUN_SAMPLES)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.asarray(np.repeat(starts, parts) + part * limits.ENCODE_RUN_SAMPLES)


def compact(slots: U8, widths: U8) -> U8:
    """The bytes of all slots without the unused ones."""
    return np.asarray(slots[np.arange(SLOT_BYTES, dtype=np.uint8) < widths[:, None]])
