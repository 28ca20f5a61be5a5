"""Encodes times of many runs as packed deltas with the best scale. A run is samples of one channel, side by side.

The work per sample depends on the run: none where the interval is constant, a division and a cast where all deltas take
one byte, and a matrix of bytes where all have the same width. Only in other runs each delta is measured.
"""

from typing import Final, NamedTuple

import numpy as np

from rta_wire.arrays import I64, Indices, Unsigned
from rta_wire.codec.protobuf import memory_views, varint

RunBounds = tuple[I64, I64]
"""Starts and lengths of runs."""

_EXACT_IN_DOUBLE: Final = 1 << 53
_NARROW_MAX: Final = 2**31 - 1


class PackedDeltas(NamedTuple):
    """For each run its scale, its packed deltas and their size."""

    scales: I64
    pieces: list[memoryview]
    sizes: I64


def pack(times: I64, starts: I64, lens: I64) -> PackedDeltas:
    """Encodes the deltas of runs that cover `times` without gaps and whose neighbours differ by less than 2^63."""
    runs = len(starts)
    deltas = np.empty(len(times), np.int64)
    np.subtract(times[1:], times[:-1], out=deltas[1:])
    # A first delta is 0 by definition. Until the lowest and highest are known, it is set to the second.
    deltas[starts] = np.where(lens > 1, deltas[np.minimum(starts + 1, len(times) - 1)], 0)
    low, high = np.minimum.reduceat(deltas, starts), np.maximum.reduceat(deltas, starts)
    deltas[starts] = 0
    is_constant = low == high
    scales = np.where(is_constant, np.abs(low), 1)
    scales[scales == 0] = 1
    packed = PackedDeltas(scales, [_EMPTY] * runs, np.zeros(runs, np.int64))
    is_periodic = is_constant & (low >= 0)
    _put_constant(packed, np.flatnonzero(is_periodic), lens, low)
    if not is_periodic.all():
        _put_varying(packed, deltas, np.flatnonzero(~is_periodic), (starts, lens), (low, high))
    return packed


_EMPTY: Final = memoryview(b"")


def _put_constant(packed: PackedDeltas, runs: Indices, lens: I64, steps: I64) -> None:
    """Deltas of runs with one interval: a zero and then ones, or only zeros where all samples have one time."""
    if not len(runs):
        return
    max_len = int(lens[runs].max())
    ones = memoryview(b"\x00" + b"\x01" * (max_len - 1))
    zeros = memoryview(bytes(max_len))
    for run, size, step in zip(runs.tolist(), lens[runs].tolist(), steps[runs].tolist(), strict=True):
        packed.pieces[run] = ones[:size] if step else zeros[:size]
    packed.sizes[runs] = lens[runs]


def _put_varying(
    packed: PackedDeltas, deltas: I64, runs: Indices, bounds: RunBounds, lowest_and_highest: tuple[I64, I64]
) -> None:
    """Deltas of runs with several intervals, those of equal width together."""
    values, (starts, lens) = _select(deltas, runs, bounds)
    scales = np.gcd.reduceat(values, starts)
    packed.scales[runs] = scales
    # Rounds down, which is exact: the scale divides every delta.
    low, high = (extreme[runs] // scales for extreme in lowest_and_highest)
    low_width, high_width = varint.widths(low.view(np.uint64)), varint.widths(high.view(np.uint64))
    # A negative delta takes ten bytes and looks like the largest of all: in such runs each delta is measured.
    widths = np.where((low >= 0) & ((low_width == high_width) | (high_width == 1)), high_width, 0)
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        chosen_values, chosen_bounds = _select(values, chosen, (starts, lens))
        max_quotient = -1 if width == 0 else int(high[chosen].max())
        scaled = _divide(chosen_values, scales[chosen], chosen_bounds[1], max_quotient)
        put = _put_mixed if width == 0 else _put_alike
        put(packed, scaled, runs[chosen], chosen_bounds, width)


def _select(values: I64, runs: Indices, bounds: RunBounds) -> tuple[I64, RunBounds]:
    """The samples of some runs side by side, with the bounds that the runs have there."""
    starts, lens = bounds
    if len(runs) == len(starts):
        return values, bounds
    lens = lens[runs]
    ends = starts[runs] + lens
    parts = [values[first:last] for first, last in zip(starts[runs].tolist(), ends.tolist(), strict=True)]
    return np.concatenate(parts), (np.cumsum(lens) - lens, lens)


def _divide(values: I64, scales: I64, lens: I64, max_quotient: int) -> Unsigned:
    """Divides values that their scale divides exactly, into 32 bits where the largest quotient fits.

    Doubles divide four times as fast, exactly below 2^53; from doubles to 32 bits is twenty times as fast as to 64.
    """
    is_narrow = 0 <= max_quotient <= _NARROW_MAX
    if scales.max() == 1:
        return values.astype(np.uint32) if is_narrow else values.view(np.uint64)
    if is_narrow and max_quotient * int(scales.max()) <= _NARROW_MAX:
        return (values.astype(np.int32) / np.repeat(scales.astype(np.int32), lens)).astype(np.int32).view(np.uint32)
    if is_narrow and scales.max() <= _EXACT_IN_DOUBLE // _NARROW_MAX:
        return (values / np.repeat(scales, lens)).astype(np.int32).view(np.uint32)
    return (values // np.repeat(scales, lens)).view(np.uint64)


def _put_alike(packed: PackedDeltas, scaled: Unsigned, runs: Indices, bounds: RunBounds, width: int) -> None:
    """Deltas of one width, except the first of each run: of its zero only the last byte is taken."""
    starts, lens = bounds
    table = varint.matrix(scaled, width)
    if table.shape[1] != width:
        table = np.ascontiguousarray(table[:, :width])
    view = memory_views.of_array(table.reshape(-1))
    firsts = starts * width + (width - 1)
    lasts = (starts + lens) * width
    for run, first, last in zip(runs.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        packed.pieces[run] = view[first:last]
    packed.sizes[runs] = lasts - firsts


def _put_mixed(packed: PackedDeltas, scaled: Unsigned, runs: Indices, bounds: RunBounds, _width: int) -> None:
    """Deltas of different widths."""
    width = varint.widths(scaled)
    sizes = np.add.reduceat(width, bounds[0], dtype=np.int64)
    parts = memory_views.split(varint.encode(scaled, width), sizes)
    for run, part in zip(runs.tolist(), parts, strict=True):
        packed.pieces[run] = part
    packed.sizes[runs] = sizes
