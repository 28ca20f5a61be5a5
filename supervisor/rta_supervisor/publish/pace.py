"""How often time ranges are told: as the settings say, and less often where that can't be kept up. Pure."""

from typing import Final

PERIOD_MAX_S: Final = 30.0
"""The longest period that the guidelines of the Toolkit allow."""

TICK_S: Final = 1.0
"""How often the catalogue is looked at."""

TICKS_PER_PERIOD: Final = 5

CORES_MAX: Final = 0.55
"""Processor time that the duty takes per second, at most. What is measured lags behind, so it is below the 0.6 that
are promised."""

BUSY_MAX: Final = 0.9
"""The share of time that may pass with calls under way."""

STEP: Final = 0.5
"""How much of the way to the right period is gone at a time: one slow moment is no reason to slow down by much."""

TOLERANCE: Final = 1.1
"""A period that differs by less from the one of the settings counts as the same."""


def tick_s(every_s: float) -> float:
    """How often the catalogue is looked at where time ranges are told every so often."""
    return min(TICK_S, every_s / TICKS_PER_PERIOD)


class Pace:
    """The period in which the time range of a session is told."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self.period_s = every_s

    @property
    def is_slowed(self) -> bool:
        return self.period_s > self._every_s * TOLERANCE

    def note(self, *, elapsed_s: float, busy_s: float, cpu_s: float) -> None:
        """Choose the period anew after a span of time, from how long calls were under way in it and what they cost.

        Nearly all of that is inversely proportional to the period.
        """
        if elapsed_s <= 0:
            return
        load = max(busy_s / elapsed_s / BUSY_MAX, cpu_s / elapsed_s / CORES_MAX)
        wanted_s = min(max(self.period_s * load, self._every_s), PERIOD_MAX_S)
        self.period_s += (wanted_s - self.period_s) * STEP
        if self.period_s < self._every_s * TOLERANCE and wanted_s == self._every_s:
            self.period_s = self._every_s
