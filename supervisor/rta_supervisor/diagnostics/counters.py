"""What this supervisor has done so far, as plain numbers. Who does something adds to them, once per batch; who shows
them reads them. There is one set for the process, and only its event loop touches it.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from rta_wire import day_streams

STREAMS_MAX: Final = 500
OTHER: Final = "_other"
"""Label of the streams beyond that. No stream is called so."""

DELAYS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How often a value was at most each of some bounds."""

    def __init__(self, bounds: Sequence[float] = DELAYS_S) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


class StreamCounts:
    """What came through one stream, or through all days of a source."""

    __slots__ = ("bursts", "raw_bytes", "samples", "stored_bytes", "trimmed")

    def __init__(self) -> None:
        self.bursts = self.samples = self.raw_bytes = self.stored_bytes = self.trimmed = 0

    def add(self, other: "StreamCounts") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counts:
    """All of it."""

    def __init__(self) -> None:
        self.opened = 0
        self.opened_again = 0
        self.closed: dict[str, int] = defaultdict(int)
        """By state."""
        self.requests: dict[tuple[str, str], int] = defaultdict(int)
        """By kind and outcome."""
        self.reports = 0
        self.ranges_published = 0
        self.dead_letters: dict[str, int] = defaultdict(int)
        """By code."""
        self.webhooks: dict[tuple[str, str], int] = defaultdict(int)
        """Tries by target and outcome."""
        self.redelivered = 0
        self.evicted = 0
        self.data_losses = 0
        self.sessions_restored = 0
        self.sessions_with_loss = 0
        self.streams_removed = 0
        self.days_removed = 0
        self.compactions: dict[str, int] = defaultdict(int)
        """Streams by outcome."""
        self.compacted_raw_bytes = 0
        self.compacted_live_bytes = 0
        self.compacted_cold_bytes = 0
        self.archived = 0
        self.archive_held: dict[str, float] = {}
        """Streams that wait for the archive, with the share that they take of what they may."""
        self.archive_cut: dict[str, int] = defaultdict(int)
        """Entries by stream that were trimmed before the archive had them."""
        self.streams: dict[str, StreamCounts] = {}
        self.refresh_delay_s = Histogram()
        self.loop_delay_s = Histogram()

    def of_stream(self, name: str) -> StreamCounts:
        """By its source: a new name every day would have no bound, and a count that ends at midnight is no use."""
        source = day_streams.source_of(name)
        if (found := self.streams.get(source)) is not None:
            return found
        return self.streams.setdefault(source if len(self.streams) < STREAMS_MAX else OTHER, StreamCounts())

    def merge_gone_streams(self, names: Iterable[str]) -> None:
        """Streams that are gone give their place to new ones. What came through them is not forgotten."""
        there = {OTHER, *map(day_streams.source_of, names)}
        for gone in self.streams.keys() - there:
            row = self.streams.pop(gone)
            self.streams.setdefault(OTHER, StreamCounts()).add(row)

    def add_reported(self, name: str, grown: Sequence[int]) -> None:
        """More of bursts, samples, raw and stored bytes, in the order in which Redis gives them."""
        row = self.of_stream(name)
        row.bursts += grown[0]
        row.samples += grown[1]
        row.raw_bytes += grown[2]
        row.stored_bytes += grown[3]

    def history_sums(self) -> dict[str, int]:
        """Those that are kept in slots, summed over their labels."""
        streams = self.streams.values()
        return {
            "opened": self.opened,
            "closed": sum(self.closed.values()),
            "requests": sum(self.requests.values()),
            "reports": self.reports,
            "bursts": sum(one.bursts for one in streams),
            "samples": sum(one.samples for one in streams),
            "bytes": sum(one.stored_bytes for one in streams),
            "trimmed": sum(one.trimmed for one in streams),
            "dead_letters": sum(self.dead_letters.values()),
            "redelivered": self.redelivered,
            "evicted": self.evicted,
            "data_losses": self.data_losses,
        }


counts: Final = Counts()
