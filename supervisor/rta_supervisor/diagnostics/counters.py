"""Counters of what this supervisor has done since its start, as plain numbers.

The code that does something adds to them once per batch; `observe` reads them. There is one set for the process, and
only its event loop touches it.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rta_wire import day_streams

STREAMS_MAX: Final = 500
OTHER: Final = "_other"
"""Label of all streams beyond `STREAMS_MAX`. No stream can have that name."""

DELAYS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How many values were in each bucket, by the upper bounds of the buckets, and their sum."""

    def __init__(self, bounds: Sequence[float] = DELAYS_S) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value


class StreamCounts:
    """What was written to and trimmed from one stream, or all days of a source."""

    __slots__ = ("bursts", "raw_bytes", "samples", "stored_bytes", "trimmed")

    def __init__(self) -> None:
        self.bursts = self.samples = self.raw_bytes = self.stored_bytes = self.trimmed = 0

    def add(self, other: "StreamCounts") -> None:
        """Add the counts of another stream."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counts:
    """All counters of one process."""

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
        self.publications: dict[str, int] = defaultdict(int)
        """Calls to a Session Service by outcome."""
        self.configs_published = 0
        self.publish_status: Any = None
        """How publishing goes, where this supervisor does it: a `PublishStatus` of `publish`."""
        self.limits_reached: dict[tuple[str, str], int] = defaultdict(int)
        """By principal and limit."""
        self.configs: dict[str, int] = defaultdict(int)
        """Configurations by outcome: published and new, published and known, restored after a loss."""
        self.configs_missing = 0
        """Configurations that live sessions are bound to and nobody published here, when that was looked at last."""
        self.http_closed: dict[str, int] = defaultdict(int)
        """Connections that were refused or closed by a limit, by reason."""
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
        self.archived_parts = 0
        self.archive_held: dict[str, float] = {}
        """Streams that wait for the archive, with the memory that they take as a share of `archive.max_bytes`."""
        self.archive_cut: dict[str, int] = defaultdict(int)
        """Entries by stream that were trimmed before the archive had them."""
        self.streams: dict[str, StreamCounts] = {}
        self.refresh_delay_s = Histogram()
        self.loop_delay_s = Histogram()

    def of_stream(self, name: str) -> StreamCounts:
        """The counts of a stream's source: with one for each day their number would have no bound."""
        source = day_streams.source_of(name)
        if (stream := self.streams.get(source)) is not None:
            return stream
        return self.streams.setdefault(source if len(self.streams) < STREAMS_MAX else OTHER, StreamCounts())

    def merge_gone_streams(self, names: Iterable[str]) -> None:
        """Add the counts of sources without any of the given streams to `OTHER`, which makes room for new ones."""
        existing = {OTHER, *map(day_streams.source_of, names)}
        for source in self.streams.keys() - existing:
            gone = self.streams.pop(source)
            self.streams.setdefault(OTHER, StreamCounts()).add(gone)

    def add_reported(self, name: str, grown: Sequence[int]) -> None:
        """Add what reports brought for a stream: bursts, samples, raw bytes and stored bytes, as Redis gives them."""
        stream = self.of_stream(name)
        stream.bursts += grown[0]
        stream.samples += grown[1]
        stream.raw_bytes += grown[2]
        stream.stored_bytes += grown[3]

    def history_sums(self) -> dict[str, int]:
        """The counters whose history is kept in Redis, summed over their labels."""
        streams = self.streams.values()
        return {
            "opened": self.opened,
            "closed": sum(self.closed.values()),
            "requests": sum(self.requests.values()),
            "reports": self.reports,
            "bursts": sum(stream.bursts for stream in streams),
            "samples": sum(stream.samples for stream in streams),
            "bytes": sum(stream.stored_bytes for stream in streams),
            "trimmed": sum(stream.trimmed for stream in streams),
            "dead_letters": sum(self.dead_letters.values()),
            "redelivered": self.redelivered,
            "evicted": self.evicted,
            "data_losses": self.data_losses,
        }


counts: Final = Counts()
"""The counters of this process."""
