"""Where chunks begin and end. Pure.

Time is divided into windows of a fixed length that begin at multiples of it. A chunk holds samples of one window: all
of them, or where there are many so many at a time. So bounds depend on the samples alone, and not on where they are
read from, in which order they came, or which range was asked for. Samples of equal time are in the order of their
values: the order in which they were written is not the same everywhere.
"""

from typing import Final

import numpy as np

from rta_wire import limits
from rta_wire.arrays import I64, Array, Indices

WINDOW_NS: Final = limits.CHUNK_WINDOW_NS


def window_of(time_ns: int) -> int:
    """The number of the window that has a time."""
    return time_ns // WINDOW_NS


def bounds_ns(first: int, last: int) -> tuple[int, int]:
    """The first and the last nanosecond of the windows from `first` to `last`, as far as 64 bits go."""
    start_ns, end_ns = first * WINDOW_NS, (last + 1) * WINDOW_NS - 1
    return max(start_ns, limits.TIME_NS_MIN), min(end_ns, limits.TIME_NS_MAX)


def in_time_order(times_ns: I64, values: Array) -> tuple[I64, Array]:
    """Samples of one channel by time, and those of one time by value."""
    steps = times_ns[1:] - times_ns[:-1]
    if len(steps) and (steps <= 0).any():
        if (steps < 0).any():
            order = np.argsort(times_ns, kind="stable")
            times_ns, values = times_ns[order], values[order]
        if (times_ns[1:] == times_ns[:-1]).any():
            order = tie_order(times_ns, values)
            values = values[order]
    return times_ns, values


def tie_order(times_ns: I64, values: Array) -> Indices:
    """The order by time and then by the bytes of the value, which tell NaN from NaN and -0.0 from 0.0."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    return np.lexsort((bits, times_ns))


def cut(times_ns: I64, max_samples: int = limits.CHUNK_SAMPLES, *, sample_bytes: int = 1) -> list[int]:
    """Where chunks begin in sorted times, and their number at the end: one window each, cut after `max_samples`.

    The cut is moved behind samples of equal time, so that chunks don't overlap, as far as a list may be large:
    `sample_bytes` is the most that one of them takes.
    """
    tied_samples = max(max_samples, min(limits.CHUNK_MAX_SAMPLES, limits.CHUNK_LIST_MAX_BYTES // sample_bytes))
    if not len(times_ns):
        return [0]
    numbers = times_ns // WINDOW_NS
    stops = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(times_ns)]
    cuts = [0]
    for stop in stops:
        while stop - cuts[-1] > max_samples:
            first = cuts[-1]
            at = first + int(np.searchsorted(times_ns[first:stop], times_ns[first + max_samples - 1], side="right"))
            at = min(at, first + tied_samples)
            if at >= stop:
                break
            cuts.append(at)
        cuts.append(stop)
    return cuts
