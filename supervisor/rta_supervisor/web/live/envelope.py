"""The lowest and highest sample of each channel in each of so many steps of time: what a plot can show, and no more."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

CHANNELS_MAX: Final = 8


class _Track:
    """One channel, as rings: step n stands at n modulo their length."""

    def __init__(self, steps: int) -> None:
        self.low: F64 = np.full(steps, np.inf)
        self.high: F64 = np.full(steps, -np.inf)
        self.is_new: npt.NDArray[np.bool_] = np.zeros(steps, np.bool_)

    def clear(self, places: I64) -> None:
        self.low[places], self.high[places], self.is_new[places] = np.inf, -np.inf, False


class Envelope:
    """A window of `steps` steps that ends with the latest sample of all. What falls out of it is forgotten."""

    def __init__(self, steps: int, step_ns: int) -> None:
        self.steps = steps
        self.step_ns = step_ns
        self.last: int | None = None
        """The number of the latest step: time divided by the length of a step."""
        self._tracks: dict[int, _Track] = {}

    def add(self, channel: int, times_ns: I64, values: npt.NDArray[Any]) -> None:
        """Samples in any order. What is no number shows as nothing."""
        samples = np.asarray(values, np.float64)
        good = np.isfinite(samples)
        numbers, samples = times_ns[good] // self.step_ns, samples[good]
        if not len(numbers):
            return
        self._advance(int(numbers.max()))
        assert self.last is not None
        inside = numbers > self.last - self.steps
        places, samples = numbers[inside] % self.steps, samples[inside]
        track = self._tracks.setdefault(channel, _Track(self.steps))
        np.minimum.at(track.low, places, samples)
        np.maximum.at(track.high, places, samples)
        track.is_new[places] = True

    def changed_steps(self) -> dict[str, dict[str, list[Any]]]:
        """Steps that changed since the last time, by channel: numbers, lowest and highest."""
        return {str(channel): found for channel, track in self._tracks.items() if (found := self._news_of(track))}

    def _advance(self, number: int) -> None:
        if self.last is None:
            self.last = number
        elif number > self.last:
            passed = np.arange(max(self.last + 1, number - self.steps + 1), number + 1, dtype=np.int64)
            for track in self._tracks.values():
                track.clear(passed % self.steps)
            self.last = number

    def _news_of(self, track: _Track) -> dict[str, list[Any]]:
        places = np.flatnonzero(track.is_new)
        if not len(places) or self.last is None:
            return {}
        track.is_new[:] = False
        # The highest number that is not above `last` and stands at this place.
        numbers = self.last - (self.last - places) % self.steps
        order = np.argsort(numbers)
        return {
            "at": numbers[order].tolist(),
            "low": track.low[places][order].tolist(),
            "high": track.high[places][order].tolist(),
        }
