"""Times of many runs to packed deltas with the best scale. A run is samples of one channel, side by side.

The work per sample depends on the run: none where the interval is constant, a division and a cast where all deltas take
one byte, a matrix of bytes where all take the same width, and only the rest is measured sample by sample.
"""

from typing import Final, NamedTuple

import numpy as np

from rta_wire.arrays import I64, Indices, Unsigned
from rta_wire.codec import memory_views
from rta_wire.codec.protobuf import varint

RunBounds = tuple[I64, I64]
"""Starts and lengths of runs."""

_EXACT_IN_DOUBLE: Final = 1 << 53
_NARROW_MAX: Final = 2**31 - 1


class PackedDeltas(NamedTuple):
    """One scale and one piece of packed deltas per run."""

    scales: I64
    pieces: list[memoryview]
    sizes: I64


def pack(times: I64, starts: I64, lens: I64) -> PackedDeltas:
    """Encodes the deltas of runs that cover `times` without gaps and whose neighbours differ by less than 2^63."""
    runs = len(starts)
    deltas = np.empty(len(times), np.int64)
    np.subtract(times[1:], times[:-1], out=deltas[1:])
    # A first delta is 0 by definition. Until the ranges are known, let it look like the second.
    deltas[starts] = np.where(lens > 1, deltas[np.minimum(starts + 1, len(times) - 1)], 0)
    low, high = np.minimum.reduceat(deltas, starts), np.maximum.reduceat(deltas, starts)
    deltas[starts] = 0
    constant = low == high
    scales = np.where(constant, np.abs(low), 1)
    scales[scales == 0] = 1
    packed = PackedDeltas(scales, [_NOTHING] * runs, np.zeros(runs, np.int64))
    even = constant & (low >= 0)
    _put_constant(packed, np.flatnonzero(even), lens, low)
    if not even.all():
        _put_varying(packed, deltas, np.flatnonzero(~even), (starts, lens), (low, high))
    return packed


_NOTHING: Final = memoryview(b"")


def _put_constant(packed: PackedDeltas, runs: Indices, lens: I64, steps: I64) -> None:
    """A zero and then only ones, or only zeros where all samples have one time."""
    if not len(runs):
        return
    most = int(lens[runs].max())
    ones = memoryview(b"\x00" + b"\x01" * (most - 1))
    zeros = memoryview(bytes(most))
    for run, size, step in zip(runs.tolist(), lens[runs].tolist(), steps[runs].tolist(), strict=True):
        packed.pieces[run] = ones[:size] if step else zeros[:size]
    packed.sizes[runs] = lens[runs]


def _put_varying(packed: PackedDeltas, deltas: I64, runs: Indices, where: RunBounds, bounds: tuple[I64, I64]) -> None:
    values, (starts, lens) = _only(deltas, runs, where)
    scales = np.gcd.reduceat(values, starts)
    packed.scales[runs] = scales
    # Rounds down, which is exact: the scale divides every delta.
    low, high = (bound[runs] // scales for bound in bounds)
    least, most = varint.widths(low.view(np.uint64)), varint.widths(high.view(np.uint64))
    # A negative delta takes ten bytes and looks like the largest of all: such runs are measured one by one.
    width = np.where((low >= 0) & ((least == most) | (most == 1)), most, 0)
    for each in np.unique(width).tolist():
        chosen = np.flatnonzero(width == each)
        some, (first, count) = _only(values, chosen, (starts, lens))
        scaled = _divide(some, scales[chosen], count, -1 if each == 0 else int(high[chosen].max()))
        put = _put_mixed if each == 0 else _put_alike
        put(packed, scaled, runs[chosen], (first, count), each)


def _only(values: I64, runs: Indices, where: RunBounds) -> tuple[I64, RunBounds]:
    """The samples of some runs side by side, with their own starts and lengths."""
    starts, lens = where
    if len(runs) == len(starts):
        return values, where
    lens = lens[runs]
    ends = starts[runs] + lens
    parts = [values[first:last] for first, last in zip(starts[runs].tolist(), ends.tolist(), strict=True)]
    return np.concatenate(parts), (np.cumsum(lens) - lens, lens)


def _divide(values: I64, scales: I64, lens: I64, high: int) -> Unsigned:
    """Divides where nothing remains, into 32 bits where `high`, the largest quotient, allows.

    Doubles divide four times as fast, exactly below 2^53; from doubles to 32 bits is twenty times as fast as to 64.
    """
    narrow = 0 <= high <= _NARROW_MAX
    if scales.max() == 1:
        return values.astype(np.uint32) if narrow else values.view(np.uint64)
    if narrow and high * int(scales.max()) <= _NARROW_MAX:
        return (values.astype(np.int32) / np.repeat(scales.astype(np.int32), lens)).astype(np.int32).view(np.uint32)
    if narrow and scales.max() <= _EXACT_IN_DOUBLE // _NARROW_MAX:
        return (values / np.repeat(scales, lens)).astype(np.int32).view(np.uint32)
    return (values // np.repeat(scales, lens)).view(np.uint64)


def _put_alike(packed: PackedDeltas, scaled: Unsigned, runs: Indices, where: RunBounds, width: int) -> None:
    """Deltas of one width, except the first of each run: of its zero only the last byte is taken."""
    starts, lens = where
    table = varint.matrix(scaled, width)
    if table.shape[1] != width:
        table = np.ascontiguousarray(table[:, :width])
    view = memory_views.of_array(table.reshape(-1))
    firsts = starts * width + (width - 1)
    lasts = (starts + lens) * width
    for run, first, last in zip(runs.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        packed.pieces[run] = view[first:last]
    packed.sizes[runs] = lasts - firsts


def _put_mixed(packed: PackedDeltas, scaled: Unsigned, runs: Indices, where: RunBounds, _width: int) -> None:
    """Deltas that take what they take."""
    width = varint.widths(scaled)
    sizes = np.add.reduceat(width, where[0], dtype=np.int64)
    parts = memory_views.split(varint.encode(scaled, width), sizes)
    for run, part in zip(runs.tolist(), parts, strict=True):
        packed.pieces[run] = part
    packed.sizes[runs] = sizes
