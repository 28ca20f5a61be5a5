"""The envelope of many samples: for each channel and each step of time the lowest, the highest and the mean value, and
how many samples there were. Pure, and bounded: it keeps steps and no samples.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import F64, I64, Array
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.chunks.envelope_cells import EnvelopeCells

MAX_CELLS: Final = 2_000_000
"""Channels times steps of one envelope: about 80 MB."""

_STEP_BITS: Final = 3
"""Leading bits of the length of a step that are kept: the others are 0, so that steps are made of whole cells."""


class EnvelopeSteps(NamedTuple):
    """The steps of one channel that have samples, by time."""

    channel: int
    times_ns: I64
    """When each step begins."""
    low: F64
    high: F64
    mean: F64
    samples: I64


class _Sums(NamedTuple):
    """Lowest and highest values, and sums."""

    low: F64
    high: F64
    sum: F64

    def reduced(self, firsts: Array) -> "_Sums":
        """Those of groups that begin at some places."""
        return _Sums(
            np.minimum.reduceat(self.low, firsts),
            np.maximum.reduceat(self.high, firsts),
            np.add.reduceat(self.sum, firsts),
        )

    def part(self, run: slice) -> "_Sums":
        return _Sums(self.low[run], self.high[run], self.sum[run])


class _Cells:
    """One channel: arrays with a place for each step."""

    def __init__(self, steps: int) -> None:
        self.low: F64 = np.full(steps, np.inf)
        self.high: F64 = np.full(steps, -np.inf)
        self.sum: F64 = np.zeros(steps)
        self.count: I64 = np.zeros(steps, np.int64)


def step_of(start_ns: int, end_ns: int, steps: int) -> int:
    """The length of about so many steps of a range, `end_ns` included: at most a quarter longer than that."""
    exact_ns = max(1, -(-(end_ns - start_ns + 1) // steps))
    unit_ns = 1 << max(0, exact_ns.bit_length() - _STEP_BITS)
    return -(-exact_ns // unit_ns) * unit_ns


class SampleEnvelope:
    """Steps of equal length over a range of time. They begin at multiples of their length."""

    def __init__(self, start_ns: int, end_ns: int, step_ns: int) -> None:
        """`end_ns` is included."""
        self.step_ns = step_ns
        self._first = start_ns // self.step_ns
        self._steps = end_ns // self.step_ns - self._first + 1
        self.bounds_ns = start_ns, end_ns
        """Samples outside count for nothing."""
        self._channels: dict[int, _Cells] = {}

    def add(self, channel: int, times_ns: I64, values: Array) -> None:
        """Adds samples of a channel in any order. Those outside the range, and values that are not finite, count for
        nothing."""
        samples = values.astype(np.float64, copy=False)
        start_ns, end_ns = self.bounds_ns
        is_wanted = np.isfinite(samples) & (times_ns >= start_ns) & (times_ns <= end_ns)
        if not is_wanted.all():
            times_ns, samples = times_ns[is_wanted], samples[is_wanted]
        if not len(samples):
            return
        numbers = times_ns // self.step_ns - self._first
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, samples = numbers[order], samples[order]
        firsts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        lengths = np.diff(firsts, append=len(samples))
        self._merge(channel, numbers[firsts], _Sums(samples, samples, samples).reduced(firsts), lengths)

    def takes(self, level: int, start_ns: int, end_ns: int) -> bool:
        """Whether cells of this level stand for samples of a range: all inside, and no step ends within a cell."""
        return self.bounds_ns[0] <= start_ns and end_ns <= self.bounds_ns[1] and self.step_ns % (1 << level) == 0

    def add_cells(self, blocks: Sequence[EnvelopeCells], selection: ChannelSelection) -> None:
        """Adds cells of some channels, of blocks that `takes` said yes to."""
        chosen = [cells.take(selection.mask(cells.channels)) for cells in blocks]
        if not any(len(cells.channels) for cells in chosen):
            return
        numbers = np.concatenate([(cells.numbers << cells.level) // self.step_ns - self._first for cells in chosen])
        channels, low, high, total, samples = (
            np.concatenate([c[column] for c in chosen]) for column in (1, 3, 4, 5, 6)
        )
        order = np.lexsort((numbers, channels))
        numbers, channels = numbers[order], channels[order]
        firsts = np.flatnonzero(np.r_[True, (channels[1:] != channels[:-1]) | (numbers[1:] != numbers[:-1])])
        sums = _Sums(low[order], high[order], total[order]).reduced(firsts)
        counts = np.add.reduceat(samples[order], firsts)
        numbers, channels = numbers[firsts], channels[firsts]
        starts = np.flatnonzero(np.r_[True, channels[1:] != channels[:-1]]).tolist()
        for start, stop in itertools.pairwise([*starts, len(channels)]):
            run = slice(start, stop)
            self._merge(int(channels[start]), numbers[run], sums.part(run), counts[run])

    def _merge(self, channel: int, places: I64, sums: _Sums, counts: I64) -> None:
        """Adds the sums of some steps, each of them once."""
        cells = self._channels.get(channel)
        if cells is None:
            if (len(self._channels) + 1) * self._steps > MAX_CELLS:
                reason = f"{len(self._channels) + 1} channels of {self._steps} steps are more than {MAX_CELLS} in all"
                raise errors.BadQuery(where="resolution", reason=reason)
            cells = self._channels[channel] = _Cells(self._steps)
        cells.low[places] = np.minimum(cells.low[places], sums.low)
        cells.high[places] = np.maximum(cells.high[places], sums.high)
        cells.sum[places] += sums.sum
        cells.count[places] += counts

    def channels(self) -> Iterator[EnvelopeSteps]:
        """The steps of each channel, channels ascending."""
        for channel, cells in sorted(self._channels.items()):
            places = np.flatnonzero(cells.count)
            counts = cells.count[places]
            times = np.maximum((places + self._first) * self.step_ns, limits.TIME_NS_MIN)
            yield EnvelopeSteps(
                channel, times, cells.low[places], cells.high[places], cells.sum[places] / counts, counts
            )
