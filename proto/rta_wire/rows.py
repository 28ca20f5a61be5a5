"""Row data: one sample of each of several channels at one time, in one packed buffer."""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rta_wire import limits, messages, pack, varint

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

SLOT_BYTES: Final = 8
"""Room for a sample of any type."""


class Cells(NamedTuple):
    """Samples of channels that travel as rows, in any order: `slots` holds the bytes, `widths` says how many."""

    channels: U32
    times: I64
    slots: U8
    widths: U8


def cells(channels: U32, times: I64, made: npt.NDArray[Any]) -> Cells:
    """Samples of one type, each with its channel and time."""
    width = made.dtype.itemsize
    slots = np.zeros((len(made), SLOT_BYTES), np.uint8)
    slots[:, :width] = np.ascontiguousarray(made).view(np.uint8).reshape(-1, width)
    return Cells(channels, times, slots, np.full(len(made), width, np.uint8))


def join(parts: list[Cells]) -> Cells:
    """Cells of several types together."""
    return Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def block(these: Cells) -> pack.Block:
    """One message per time, its channels ascending. A channel's second sample at one time starts another message."""
    again = _repeats(these)
    order = np.lexsort((these.channels, again, these.times))
    channels, times, again = these.channels[order], these.times[order], again[order]
    starts = np.flatnonzero(np.r_[True, (times[1:] != times[:-1]) | (again[1:] != again[:-1])])
    starts = _chunks(starts, len(times))
    id_widths = varint.widths(channels.astype(np.uint64))
    widths = these.widths[order]
    id_sizes = np.add.reduceat(id_widths, starts, dtype=np.int64)
    buffer_sizes = np.add.reduceat(widths, starts, dtype=np.int64)
    ids = messages.split(varint.encode(channels.astype(np.uint64), id_widths), id_sizes)
    buffers = messages.split(_compact(these.slots[order], widths), buffer_sizes)
    pieces: list[bytes | memoryview] = []
    sizes = []
    for time, id_part, buffer in zip(times[starts].tolist(), ids, buffers, strict=True):
        head = messages.number(messages.ROW_CHANNEL_IDS, len(id_part))
        middle = messages.fixed(messages.ROW_TIMESTAMP, time) if time else b""
        middle += messages.number(messages.ROW_BUFFER, len(buffer))
        rest_bytes = len(id_part) + len(middle) + len(buffer)
        head = messages.before(messages.ITEM_ROW, len(head) + rest_bytes) + head
        pieces += (head, id_part, middle, buffer)
        sizes.append(len(head) + rest_bytes)
    lens = np.diff(starts, append=len(times))
    return pack.Block(pieces, np.array(sizes), lens, times[starts], times[starts])


def _repeats(these: Cells) -> I64:
    """How many samples of the same channel and time came before each."""
    order = np.lexsort((these.times, these.channels))
    channels, times = these.channels[order], these.times[order]
    fresh = np.r_[True, (channels[1:] != channels[:-1]) | (times[1:] != times[:-1])]
    firsts = np.flatnonzero(fresh)
    lens = np.diff(firsts, append=len(order))
    again = np.empty(len(order), np.int64)
    again[order] = np.arange(len(order)) - np.repeat(firsts, lens)
    return again


def _chunks(starts: I64, count: int) -> I64:
    """Rows with more channels than one message should have go on in another of the same time."""
    lens = np.diff(starts, append=count)
    parts = -(-lens // limits.ENCODE_RUN_SAMPLES)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.asarray(np.repeat(starts, parts) + part * limits.ENCODE_RUN_SAMPLES)


def _compact(table: U8, widths: U8) -> U8:
    return np.asarray(table[np.arange(SLOT_BYTES, dtype=np.uint8) < widths[:, None]])
