"""The samples that one task of a read in wide form keeps: those of its time, and on a grid the last ones before it.

No I/O, no Spark.
"""

from collections.abc import Iterable
from typing import Self

import msgspec
import numpy as np

from rta_wire.arrays import I64, Array

Samples = tuple[I64, Array]
"""Times, and the values."""


class TimeWindow(msgspec.Struct, frozen=True):
    """From a time up to, and without, another; None stands for no limit."""

    start_ns: int | None = None
    end_ns: int | None = None

    def within(self, start_ns: int | None, last_ns: int | None) -> Self:
        """What of it is not before a time, nor after another."""
        starts = [limit for limit in (self.start_ns, start_ns) if limit is not None]
        ends = [limit for limit in (self.end_ns, None if last_ns is None else last_ns + 1) if limit is not None]
        return type(self)(max(starts, default=None), min(ends, default=None))

    def mask(self, times_ns: I64) -> Array | None:
        """Which of these times are in it; None where all are."""
        mask: Array | None = None
        if self.start_ns is not None and (is_early := times_ns < self.start_ns).any():
            mask = ~is_early
        if self.end_ns is not None and (is_late := times_ns >= self.end_ns).any():
            mask = ~is_late if mask is None else mask & ~is_late
        return mask


class WindowSamples:
    """Collects samples of channels, in the order in which they were written."""

    def __init__(self, channel_ids: Iterable[int], window: TimeWindow, *, keeps_last: bool) -> None:
        """`keeps_last`: whether the last sample of each channel before the window is kept, as a grid needs it."""
        self._parts: dict[int, list[Samples]] = {channel_id: [] for channel_id in channel_ids}
        self._before: dict[int, Samples] = {}
        self._window = window
        self._keeps_last = keeps_last
        self.first_ns: int | None = None
        """The first time of all samples that were added, in the window or not."""
        self.last_ns: int | None = None
        """The last one."""

    def needs_any(self, times_ns: I64) -> bool:
        """Whether samples with some of these times can matter."""
        mask = self._window.mask(times_ns)
        return self._keeps_last or mask is None or bool(mask.any())

    def add(self, channel_id: int, times_ns: I64, values: Array) -> None:
        """Add samples of a channel that were written after those before."""
        if not len(times_ns):
            return
        first_ns, last_ns = int(times_ns.min()), int(times_ns.max())
        self.first_ns = first_ns if self.first_ns is None else min(first_ns, self.first_ns)
        self.last_ns = last_ns if self.last_ns is None else max(last_ns, self.last_ns)
        start_ns = self._window.start_ns
        if self._keeps_last and start_ns is not None and first_ns < start_ns:
            self._add_before(channel_id, times_ns, values, start_ns)
        mask = self._window.mask(times_ns)
        if mask is None:
            self._parts[channel_id].append((times_ns, values))
        elif mask.any():
            self._parts[channel_id].append((times_ns[mask], values[mask]))

    def in_order(self) -> dict[int, Samples]:
        """The samples of each channel that has any, by their times. Of two with the same time the later one counts."""
        kept = {
            channel_id: [self._before[channel_id], *parts] if channel_id in self._before else parts
            for channel_id, parts in self._parts.items()
        }
        return {channel_id: _in_order(parts) for channel_id, parts in kept.items() if parts}

    def _add_before(self, channel_id: int, times_ns: I64, values: Array, start_ns: int) -> None:
        places = np.flatnonzero(times_ns < start_ns)
        early = times_ns[places]
        # The last of those with the highest time: it was written later.
        place = places[len(early) - 1 - int(np.argmax(early[::-1]))]
        known = self._before.get(channel_id)
        if known is None or times_ns[place] >= known[0][0]:
            self._before[channel_id] = (times_ns[place : place + 1].copy(), values[place : place + 1].copy())


def _in_order(parts: list[Samples]) -> Samples:
    times = np.concatenate([times for times, _ in parts])
    values = np.concatenate([values for _, values in parts])
    if not (np.diff(times) > 0).all():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        is_last = np.append(np.diff(times) != 0, True)
        times, values = times[is_last], values[is_last]
    return times, values
