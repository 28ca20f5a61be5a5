"""For the encoder: rows in any order to runs, samples of one channel in time order, none too long for a message."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rta_wire.arrays import I64, U32, Bools
from rta_wire.codec import row_order
from rta_wire.codec.row_order import RowOrder


class Runs(NamedTuple):
    """Runs of some rows. Run `i` is `lens[i]` rows of channel `channels[i]`, from `starts[i]` on in `order`."""

    order: RowOrder
    times: I64
    channels: U32
    starts: I64
    lens: I64
    in_time_order: bool = True
    shared_times: "SharedTimes | None" = None


class SharedTimes(NamedTuple):
    """Times that runs have in common: runs with the distinct times, and for each run the index of its times there."""

    runs: Runs
    indices: I64


def group(channels: U32, times: I64, *, in_time_order: bool = True) -> Runs:
    """Groups rows by channel. Rows of one channel and one time stay in the order in which they came."""
    order, distinct, lens = row_order.by_channel(channels)
    starts = np.cumsum(lens) - lens
    shared = None
    if isinstance(order, row_order.RoundRobinOrder) and order.has_shared_values(times):
        stretch_times = order.stretch_values(times)
        shared = _shared_times(order, stretch_times, in_time_order=in_time_order)
        runs = Runs(order, order.assemble(stretch_times), distinct, starts, lens, in_time_order, shared)
    else:
        runs = Runs(order, order.apply(times), distinct, starts, lens, in_time_order)
    if in_time_order and _has_late_rows(runs if shared is None else shared.runs):
        # Released first: this is where encoding needs the most memory.
        del order, runs
        order = row_order.by_time_and_channel(channels, times)
        runs = Runs(order, order.apply(times), distinct, starts, lens, in_time_order)
    return runs


def _shared_times(order: row_order.RoundRobinOrder, stretch_times: list[I64], *, in_time_order: bool) -> SharedTimes:
    lens = np.array([len(times) for times in stretch_times])
    no_channels = np.zeros(len(stretch_times), np.uint32)
    starts = np.cumsum(lens) - lens
    runs = Runs(row_order.NO_ORDER, np.concatenate(stretch_times), no_channels, starts, lens, in_time_order)
    channel_counts = [stretch.channels for stretch in order.stretches]
    return SharedTimes(runs, np.repeat(np.arange(len(stretch_times)), channel_counts))


def _has_late_rows(runs: Runs) -> bool:
    """Whether a row of a run is earlier than the row before it."""
    late = runs.times[1:] < runs.times[:-1]
    late[runs.starts[1:] - 1] = False
    return bool(late.any())


def select(runs: Runs, chosen: Bools) -> Runs:
    """The chosen runs, without the rows of the others."""
    if chosen.all():
        return runs
    is_chosen_row = np.repeat(chosen, runs.lens)
    lens = runs.lens[chosen]
    starts = np.cumsum(lens) - lens
    order = row_order.IndexOrder(runs.order.rows[is_chosen_row])
    return Runs(order, runs.times[is_chosen_row], runs.channels[chosen], starts, lens, runs.in_time_order)


def split(runs: Runs, max_samples: int) -> Runs:
    """Cuts runs into parts of at most `max_samples`, and wherever a delta would not fit 64 bits."""
    starts = _starts_with_safe_deltas(runs)
    lens = np.diff(starts, append=len(runs.times))
    parts = -(-lens // max_samples)
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
    """Runs a few at a time, with about so many samples, and the range that they have in all samples."""
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


def _starts_with_safe_deltas(runs: Runs) -> I64:
    """Starts of runs, with one more wherever the difference to the time before does not fit 64 bits."""
    times, starts = runs.times, runs.starts
    firsts, lasts = (times[starts], times[starts + runs.lens - 1]) if runs.in_time_order else (times, times)
    if int(lasts.max()) - int(firsts.min()) <= np.iinfo(np.int64).max:
        return starts
    before, after = times[:-1], times[1:]
    delta = after - before
    # A difference that wrapped has another sign than its operands allow; the lowest number has no absolute value.
    is_unsafe = ((after ^ before) & (delta ^ after)) < 0
    is_unsafe |= delta == np.iinfo(np.int64).min
    return np.union1d(starts, np.flatnonzero(is_unsafe) + 1)
