"""Encodes and decodes packed varints, many at once with numpy.

A varint is in base 128, low bits first; the top bit of a byte says that more follow.
"""

from typing import Final

import numpy as np

from rta_wire.arrays import I64, U8, U64, Bools, Unsigned

MAX_BYTES: Final = 10
"""Size of the longest varint of 64 bits, which every negative int64 takes."""

_STEPS: Final = [np.uint64(1 << (7 * k)) for k in range(1, MAX_BYTES)]
_CONT_BITS: Final = np.array([0] + [0x8080808080808080 & ((1 << (8 * (k - 1))) - 1) for k in range(1, 9)], "<u8")
_KEEP_BYTES: Final = np.array([0x0101010101010101 & ((1 << (8 * k)) - 1) for k in range(9)], "<u8")
_TOP_BIT: Final = np.uint8(0x80)
_LOW_BITS: Final = np.uint8(0x7F)


def widths(values: Unsigned) -> U8:
    """How many bytes each value takes."""
    width = np.ones(len(values), np.uint8)
    highest = values.max(initial=np.uint64(0))
    for step in _STEPS:
        if highest < step:
            break
        width += values >= step
    return width


def matrix(values: Unsigned, width: U8 | int) -> U8:
    """A row of bytes for each value, longer than `width` where that is faster; bytes past `width` have no meaning."""
    max_width = int(np.max(width, initial=1))
    if max_width <= 1:
        return values.astype(np.uint8).reshape(-1, 1)
    if max_width <= 8:
        # Where no value is wider than four bytes, 32-bit words are twice as fast.
        spread: Unsigned = values.astype(np.uint32) if max_width <= 4 else values.astype(np.uint64)
        _spread(spread)
        spread |= _CONT_BITS[width].astype(spread.dtype)
        return spread.view(np.uint8).reshape(len(values), -1)
    table = np.empty((len(values), MAX_BYTES), np.uint8)
    for k in range(MAX_BYTES):
        table[:, k] = (values >> np.uint64(7 * k)).astype(np.uint8) & _LOW_BITS
        table[:, k] |= (np.asarray(width) > k + 1) * _TOP_BIT
    return table


def _spread(values: Unsigned) -> None:
    """Inserts a zero bit above every seven bits, in place: halves, then quarters, then single bytes move apart."""
    word = values.dtype.type
    for stay, move, shift in _GAPS[values.dtype.itemsize]:
        moved = values & word(move)
        moved <<= word(shift)
        values &= word(stay)
        values |= moved


_GAPS: Final = {
    4: [(0x3FFF, 0xFFFC000, 2), (0x7F007F, 0x3F803F80, 1)],
    8: [
        (0xFFFFFFF, 0xFFFFFFF0000000, 4),
        (0x3FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x7F007F007F007F, 0x3F803F803F803F80, 1),
    ],
}


def used_bytes(width: U8, columns: int) -> Bools:
    """Which bytes of a `matrix` of so many columns belong to the values."""
    if columns <= 8:
        return _KEEP_BYTES[width].view(np.bool_).reshape(len(width), 8)[:, :columns]
    return np.arange(columns, dtype=np.uint8) < width[:, None]


def encode(values: Unsigned, width: U8) -> U8:
    """The varints of all values in a row. Made in parts, since a matrix takes several times the memory."""
    parts = [np.empty(0, np.uint8)]
    for first in range(0, len(values), _PART_VALUES):
        part_width = width[first : first + _PART_VALUES]
        table = matrix(values[first : first + _PART_VALUES], part_width)
        parts.append(table.reshape(-1) if table.shape[1] == 1 else table[used_bytes(part_width, table.shape[1])])
    return np.concatenate(parts)


_PART_VALUES: Final = 8192


def decode(data: U8) -> tuple[U64, I64] | None:
    """The values in `data` and where each of them ends; None where the bytes are no varints of 64 bits."""
    if not len(data):
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    ends = np.flatnonzero(data < _TOP_BIT)
    if not len(ends) or ends[-1] != len(data) - 1:
        return None
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    width = ends - starts + 1
    max_width = int(width.max())
    # The tenth byte has room for one bit only.
    if max_width > MAX_BYTES or (max_width == MAX_BYTES and data[ends[width == MAX_BYTES]].max() > 1):
        return None
    values = (data[starts] & _LOW_BITS).astype(np.uint64)
    for k in range(1, max_width):
        longer = np.flatnonzero(width > k)
        next_bits = (data[starts[longer] + k] & _LOW_BITS).astype(np.uint64)
        values[longer] |= next_bits << np.uint64(7 * k)
    return values, ends + 1
