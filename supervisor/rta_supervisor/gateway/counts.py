"""Counters of what this gateway has done since its start, as plain numbers. `metrics` shows them."""

from collections import defaultdict

from rta_supervisor.diagnostics.counters import Histogram


class GatewayCounts:
    """All counters of one gateway."""

    def __init__(self) -> None:
        self.viewers_joined = 0
        self.viewers_left: dict[str, int] = defaultdict(int)
        """By reason."""
        self.refused: dict[str, int] = defaultdict(int)
        """Upgrades that were not accepted, by reason."""
        self.frames = 0
        """Frames that were written to viewers."""
        self.bytes = 0
        self.entries = 0
        """Entries that were read from streams."""
        self.catch_ups = 0
        self.gap_entries = 0
        """Entries that were trimmed before a viewer could have them."""
        self.bad_entries = 0
        self.filter_s = 0.0
        self.filtered_frames = 0
        self.requests: dict[tuple[str, int], int] = defaultdict(int)
        """Of REST, by endpoint and status."""
        self.request_s: dict[str, Histogram] = defaultdict(Histogram)
        """Of REST, by endpoint."""
        self.index_bytes = 0
        """Of the time indexes of sessions."""
