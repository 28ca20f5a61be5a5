"""Rows in any order to runs: the samples of one channel side by side, in time order, none too long for a message."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rta_wire.arrays import I64, U32, Bools
from rta_wire.codec import row_order
from rta_wire.codec.row_order import RowOrder


class Runs(NamedTuple):
    """`order` says which row comes where; run `i` is `lens[i]` rows of `channels[i]` from `starts[i]` on."""

    order: RowOrder
    times: I64
    channels: U32
    starts: I64
    lens: I64
    in_time_order: bool = True
    shared_times: "SharedTimes | None" = None


class SharedTimes(NamedTuple):
    """Runs whose times are those of others: the different ones, and which of them each run has."""

    runs: Runs
    which: I64


def group(channels: U32, times: I64, *, in_time_order: bool = True) -> Runs:
    """Groups rows by channel. Rows of one channel and one time stay in the order in which they came."""
    order, found, lens = row_order.by_channel(channels)
    starts = np.cumsum(lens) - lens
    alike = None
    if isinstance(order, row_order.RoundRobinOrder) and order.has_shared_values(times):
        each = order.segment_values(times)
        alike = _alike(order, each, in_time_order=in_time_order)
        runs = Runs(order, order.assemble(each), found, starts, lens, in_time_order, alike)
    else:
        runs = Runs(order, order.apply(times), found, starts, lens, in_time_order)
    if in_time_order and _has_late(runs if alike is None else alike.runs):
        # Released first: this is where encoding needs the most memory.
        del order, runs
        order = row_order.by_time_and_channel(channels, times)
        runs = Runs(order, order.apply(times), found, starts, lens, in_time_order)
    return runs


def _alike(order: row_order.RoundRobinOrder, each: list[I64], *, in_time_order: bool) -> SharedTimes:
    lens = np.array([len(one) for one in each])
    nobody = np.zeros(len(each), np.uint32)
    runs = Runs(row_order.NO_ORDER, np.concatenate(each), nobody, np.cumsum(lens) - lens, lens, in_time_order)
    return SharedTimes(runs, np.repeat(np.arange(len(each)), [stretch.channels for stretch in order.stretches]))


def _has_late(runs: Runs) -> bool:
    late = runs.times[1:] < runs.times[:-1]
    late[runs.starts[1:] - 1] = False
    return bool(late.any())


def select(runs: Runs, chosen: Bools) -> Runs:
    """Some of the runs, without the rows of the others."""
    if chosen.all():
        return runs
    rows = np.repeat(chosen, runs.lens)
    lens = runs.lens[chosen]
    starts = np.cumsum(lens) - lens
    order = row_order.IndexOrder(runs.order.rows[rows])
    return Runs(order, runs.times[rows], runs.channels[chosen], starts, lens, runs.in_time_order)


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
    return runs._replace(channels=runs.channels[owner], starts=starts, lens=lens, shared_times=None)


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
                shared_times=None,
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
