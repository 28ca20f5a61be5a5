"""What a sweep of the trimming duty has read, which streams may be removed after that, and which entries the archive
needs. Pure.

The limits by number, bytes and age are applied inside Redis, by the server function `rtas_trim_2` in
`session/stream.lua`.
"""

from collections.abc import Collection, Mapping

import msgspec

from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_wire import entry_ids


class TrimSnapshot(msgspec.Struct, frozen=True):
    """What a sweep has read about all streams before it changes any."""

    last_use_ms: Mapping[str, float]
    """Every stream that a session used, with the time of its last use."""
    last_ids: Mapping[str, str | None]
    """The last id of each stream, read before the sessions were. Empty where the archive is not required."""
    busy: Collection[str]
    """Streams with an open session."""
    floors: Mapping[str, ArchiveFloor]
    """What the archive needs, by stream."""

    @property
    def in_use(self) -> frozenset[str]:
        """Streams that may not be removed: a session is open in them, or the archive needs entries of them."""
        return frozenset([*self.busy, *self.floors])

    def is_idle(self, stream: str, idle_stream_s: float, at_ms: float) -> bool:
        """Whether a stream was not used for so long that it may be removed; 0 s: it never is."""
        is_in_use = stream in self.busy or stream in self.floors
        return not is_in_use and 0 < idle_stream_s * 1000 <= at_ms - self.last_use_ms[stream]

    def boundary_for_archive(self, stream: str, below: str) -> str:
        """The id below which entries may be removed that the archive does not need, and that is not above `below`.

        An entry after the last id in this snapshot may be of a session that was not read.
        """
        floor = self.floors.get(stream)
        needed = self.last_ids.get(stream) if floor is None else floor.position
        return below if needed is None else min(below, needed, key=entry_ids.parse)
