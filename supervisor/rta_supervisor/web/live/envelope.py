"""The envelope of a plot: the lowest and highest sample of each channel in each step of time. Pure, and bounded: it
keeps one window of steps and no samples.
"""

from typing import Any, Final

import numpy as np

from rta_wire.arrays import F64, I64, Array, Bools

CHANNELS_MAX: Final = 8


class _ChannelRings:
    """Ring buffers of one channel with a slot for each step of the window: step n has slot n modulo their length."""

    def __init__(self, steps: int) -> None:
        self.low: F64 = np.full(steps, np.inf)
        self.high: F64 = np.full(steps, -np.inf)
        self.is_changed: Bools = np.zeros(steps, np.bool_)

    def clear(self, slots: I64) -> None:
        self.low[slots], self.high[slots], self.is_changed[slots] = np.inf, -np.inf, False


class Envelope:
    """A window of `steps` steps that ends with the latest sample of all channels. Older samples are dropped."""

    def __init__(self, steps: int, step_ns: int) -> None:
        self.steps = steps
        self.step_ns = step_ns
        self.last: int | None = None
        """The number of the latest step: time divided by the length of a step. None before the first sample."""
        self._channels: dict[int, _ChannelRings] = {}

    def add(self, channel: int, times_ns: I64, values: Array) -> None:
        """Adds samples of a channel, in any order. Values that are not finite are left out."""
        samples = np.asarray(values, np.float64)
        is_finite = np.isfinite(samples)
        numbers, samples = times_ns[is_finite] // self.step_ns, samples[is_finite]
        if not len(numbers):
            return
        self._advance(int(numbers.max()))
        assert self.last is not None
        is_inside = numbers > self.last - self.steps
        slots, samples = numbers[is_inside] % self.steps, samples[is_inside]
        rings = self._channels.setdefault(channel, _ChannelRings(self.steps))
        np.minimum.at(rings.low, slots, samples)
        np.maximum.at(rings.high, slots, samples)
        rings.is_changed[slots] = True

    def changed_steps(self) -> dict[str, dict[str, list[Any]]]:
        """Steps that changed since the last call, by channel: their numbers, lowest and highest values."""
        return {
            str(channel): steps for channel, rings in self._channels.items() if (steps := self._take_changes(rings))
        }

    def _advance(self, number: int) -> None:
        """Moves the window so that it ends with this step, if that is later. Clears the slots of new steps."""
        if self.last is None:
            self.last = number
        elif number > self.last:
            new_numbers = np.arange(max(self.last + 1, number - self.steps + 1), number + 1, dtype=np.int64)
            for rings in self._channels.values():
                rings.clear(new_numbers % self.steps)
            self.last = number

    def _take_changes(self, rings: _ChannelRings) -> dict[str, list[Any]]:
        slots = np.flatnonzero(rings.is_changed)
        if not len(slots) or self.last is None:
            return {}
        rings.is_changed[:] = False
        # The highest number that is not above `last` and has this slot.
        numbers = self.last - (self.last - slots) % self.steps
        order = np.argsort(numbers)
        return {
            "at": numbers[order].tolist(),
            "low": rings.low[slots][order].tolist(),
            "high": rings.high[slots][order].tolist(),
        }
