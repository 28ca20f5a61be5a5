"""Times of many runs to packed deltas with the best scale. A run is samples of one channel, side by side.

The work per sample depends on the run: none where the interval is constant, a division and a cast where all deltas take
one byte, a matrix of bytes where all take the same width, and only the rest is measured sample by sample.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rta_wire import varint

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_EXACT_IN_DOUBLE: Final = 1 << 53


class Packed(NamedTuple):
    """One scale and one piece of packed deltas per run."""

    scales: I64
    pieces: list[memoryview]
    sizes: I64


def pack(times: I64, starts: I64, lens: I64) -> Packed:
    """Encodes the deltas of runs that cover `times` without gaps and whose neighbours differ by less than 2^63."""
    runs = len(starts)
    deltas = np.zeros(len(times), np.int64)
    np.subtract(times[1:], times[:-1], out=deltas[1:])
    # A first delta is 0 by definition. Until the ranges are known, let it look like the second.
    deltas[starts] = np.where(lens > 1, deltas[np.minimum(starts + 1, len(times) - 1)], 0)
    low, high = np.minimum.reduceat(deltas, starts), np.maximum.reduceat(deltas, starts)
    deltas[starts] = 0
    constant = low == high
    scales = np.where(constant, np.abs(low), 1)
    scales[scales == 0] = 1
    packed = Packed(scales, [_NOTHING] * runs, np.zeros(runs, np.int64))
    even = constant & (low >= 0)
    _put_constant(packed, np.flatnonzero(even), lens, low)
    if not even.all():
        _put_varying(packed, deltas, np.flatnonzero(~even), starts, lens)
    return packed


_NOTHING: Final = memoryview(b"")


def _put_constant(packed: Packed, runs: npt.NDArray[np.intp], lens: I64, steps: I64) -> None:
    """A zero and then only ones, or only zeros where all samples have one time."""
    if not len(runs):
        return
    most = int(lens[runs].max())
    ones = memoryview(b"\x00" + b"\x01" * (most - 1))
    zeros = memoryview(bytes(most))
    for run, size, step in zip(runs.tolist(), lens[runs].tolist(), steps[runs].tolist(), strict=True):
        packed.pieces[run] = ones[:size] if step else zeros[:size]
    packed.sizes[runs] = lens[runs]


def _put_varying(packed: Packed, deltas: I64, runs: npt.NDArray[np.intp], starts: I64, lens: I64) -> None:
    scaled, starts, lens = _only(deltas, runs, starts, lens)
    scales = np.gcd.reduceat(scaled, starts)
    packed.scales[runs] = scales
    if scales.max() > 1:
        scaled = _divide(scaled, np.repeat(scales, lens))
    low, high = _range(scaled, starts)
    # Sign extension makes ten bytes of every negative delta.
    least, most = varint.widths(low.view(np.uint64)), varint.widths(high.view(np.uint64))
    alike = (least == most) | (most == 1)
    for width in np.unique(most[alike & (low >= 0)]).tolist():
        chosen = np.flatnonzero(alike & (low >= 0) & (most == width))
        _put_alike(packed, scaled, runs, chosen, (starts, lens), width)
    mixed = np.flatnonzero(~alike | (low < 0))
    if len(mixed):
        _put_mixed(packed, scaled, runs, mixed, (starts, lens))


def _only(values: I64, runs: npt.NDArray[np.intp], starts: I64, lens: I64) -> tuple[I64, I64, I64]:
    """The samples of some runs side by side, with their own starts and lengths."""
    chosen = lens[runs]
    ends = np.cumsum(chosen)
    if ends[-1] == len(values):
        return values, starts[runs], chosen
    fresh = ends - chosen
    rows = np.arange(ends[-1])
    rows += np.repeat(starts[runs] - fresh, chosen)
    return values[rows], fresh, chosen


def _divide(values: I64, by: I64) -> I64:
    """Divides where nothing remains. Doubles are four times as fast and exact below 2^53."""
    if values.min() > -_EXACT_IN_DOUBLE and values.max() < _EXACT_IN_DOUBLE:
        return (values / by).astype(np.int64)
    return values // by


def _range(scaled: I64, starts: I64) -> tuple[I64, I64]:
    """Lowest and highest delta of each run, without the zero that every run starts with where others are all above."""
    first = scaled[starts]
    scaled[starts] = scaled[starts + 1]
    low, high = np.minimum.reduceat(scaled, starts), np.maximum.reduceat(scaled, starts)
    scaled[starts] = first
    return low, high


def _put_alike(
    packed: Packed,
    scaled: I64,
    runs: npt.NDArray[np.intp],
    chosen: npt.NDArray[np.intp],
    where: tuple[I64, I64],
    width: int,
) -> None:
    """Deltas of one width, but for the first of each run: a zero in the last byte of its place, the rest cut off."""
    values, starts, lens = _only(scaled, chosen, *where)
    table = varint.matrix(values.view(np.uint64), width)
    if table.shape[1] != width:
        table = np.ascontiguousarray(table[:, :width])
    table[starts, width - 1] = 0
    view = memoryview(table.reshape(-1)).cast("B")
    firsts = starts * width + (width - 1)
    lasts = (starts + lens) * width
    for run, first, last in zip(runs[chosen].tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        packed.pieces[run] = view[first:last]
    packed.sizes[runs[chosen]] = lasts - firsts


def _put_mixed(
    packed: Packed,
    scaled: I64,
    runs: npt.NDArray[np.intp],
    chosen: npt.NDArray[np.intp],
    where: tuple[I64, I64],
) -> None:
    values, starts, _ = _only(scaled, chosen, *where)
    width = varint.widths(values.view(np.uint64))
    view = memoryview(varint.encode(values.view(np.uint64), width)).cast("B")
    sizes = np.add.reduceat(width, starts, dtype=np.int64)
    lasts = np.cumsum(sizes)
    for run, first, last in zip(runs[chosen].tolist(), (lasts - sizes).tolist(), lasts.tolist(), strict=True):
        packed.pieces[run] = view[first:last]
    packed.sizes[runs[chosen]] = sizes
