"""Rows in any order to runs: the samples of one channel side by side, in time order, none too long for a message."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
Rows = npt.NDArray[np.intp]


_COUNTED: Final = 1 << 16
"""Channels below this are counted directly, which is faster than to compare them in order."""


class Runs(NamedTuple):
    """`order` says which row comes where; run `i` is `lens[i]` rows of `channels[i]` from `starts[i]` on."""

    order: Rows
    times: I64
    channels: U32
    starts: I64
    lens: I64
    in_time_order: bool = True


NO_ROWS: Final = np.empty(0, np.intp)
"""For runs whose rows nobody needs to know any more."""


def group(channels: U32, times: I64, *, in_time_order: bool = True) -> Runs:
    """Groups rows by channel. Rows of one channel and one time stay in the order in which they came."""
    order = _by_channel(channels)
    found, lens = _runs(channels, order)
    starts = np.cumsum(lens) - lens
    ordered = gathered(times, order)
    if in_time_order:
        late = ordered[1:] < ordered[:-1]
        late[starts[1:] - 1] = False
        if late.any():
            # Released first: this is where encoding needs the most memory.
            del order, ordered, late
            order = _by_time_and_channel(channels, times)
            ordered = gathered(times, order)
    return Runs(order, ordered, found, starts, lens, in_time_order)


def gathered(values: npt.NDArray[Any], order: Rows) -> npt.NDArray[Any]:
    """Values in another order. The copy brings them near the processor, which halves the time of the jumps."""
    return values.copy().take(order, mode="clip")


def _by_channel(channels: U32) -> Rows:
    """Sorts by the low half, then by the high one: numpy sorts 16-bit numbers by radix, several times as fast."""
    order = np.argsort(channels.astype(np.uint16), kind="stable")
    if channels.max() >> 16:
        order = order[np.argsort((channels[order] >> 16).astype(np.uint16), kind="stable")]
    return order


def _by_time_and_channel(channels: U32, times: I64) -> Rows:
    order = np.argsort(times, kind="stable")
    return order[_by_channel(channels[order])]


def _runs(channels: U32, order: Rows) -> tuple[U32, I64]:
    """Which channels there are, ascending, and how many rows each has."""
    if channels.max() < _COUNTED:
        counts = np.bincount(channels)
        found = np.flatnonzero(counts)
        return found.astype(np.uint32), counts[found]
    ordered = channels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[starts], np.diff(starts, append=len(ordered))


def select(runs: Runs, chosen: npt.NDArray[np.bool_]) -> Runs:
    """Some of the runs, without the rows of the others."""
    if chosen.all():
        return runs
    rows = np.repeat(chosen, runs.lens)
    lens = runs.lens[chosen]
    starts = np.cumsum(lens) - lens
    return Runs(runs.order[rows], runs.times[rows], runs.channels[chosen], starts, lens, runs.in_time_order)


def split(runs: Runs, most: int) -> Runs:
    """Cuts runs into parts of at most `most` samples, and wherever a delta would not fit 64 bits."""
    starts = _cut_where_too_far(runs)
    lens = np.diff(starts, append=len(runs.times))
    parts = -(-lens // most)
    if parts.max() > 1:
        step = np.repeat(-(-lens // parts), parts)
        part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        starts = np.repeat(starts, parts) + part * step
        lens = np.diff(starts, append=len(runs.times))
    if len(starts) == len(runs.starts):
        return runs
    owner = np.searchsorted(runs.starts, starts, side="right") - 1
    return runs._replace(channels=runs.channels[owner], starts=starts, lens=lens)


def portions(runs: Runs, samples: int) -> Iterator[tuple[Runs, int, int]]:
    """Runs a few at a time, about so many samples of them, and where in all samples they are."""
    ends = runs.starts + runs.lens
    run = 0
    while run < len(ends):
        first = int(runs.starts[run])
        stop = max(run + 1, int(np.searchsorted(ends, first + samples, side="right")))
        last = int(ends[stop - 1])
        yield (
            runs._replace(
                times=runs.times[first:last],
                channels=runs.channels[run:stop],
                starts=runs.starts[run:stop] - first,
                lens=runs.lens[run:stop],
            ),
            first,
            last,
        )
        run = stop


def _cut_where_too_far(runs: Runs) -> I64:
    times, starts = runs.times, runs.starts
    firsts, lasts = (times[starts], times[starts + runs.lens - 1]) if runs.in_time_order else (times, times)
    if int(lasts.max()) - int(firsts.min()) <= np.iinfo(np.int64).max:
        return starts
    before, after = times[:-1], times[1:]
    delta = after - before
    # A difference that wrapped has another sign than its operands allow; the lowest number has no absolute value.
    far = ((after ^ before) & (delta ^ after)) < 0
    far |= delta == np.iinfo(np.int64).min
    return np.union1d(starts, np.flatnonzero(far) + 1)
