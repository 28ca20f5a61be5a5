"""What a sweep of the trimming duty has read, which streams may be removed after that, which entries the archive needs,
and how many small entries a stream may have. Pure.

The limits by number, bytes and age are applied inside Redis, by the server function `rtas_trim_2` in
`session/stream.lua`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_supervisor.settings import settings
from rta_wire import entry_ids

MEMORY_SHARE_MAX: Final = 0.5
"""Of the memory that Redis may use. Where it uses more, no stream keeps more than `max_entries`."""


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
    has_room: bool = True
    """Whether Redis uses so little of its memory that streams may have more than `max_entries`."""

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


class SmallEntries(msgspec.Struct, frozen=True):
    """What a stream may keep beyond `trim.max_entries` because its entries are small: a writer that sends ten times as
    often makes ten times as many. What they cost is time and memory, and both are bounded."""

    max_entries: int
    span_ms: float
    """Entries stay that are not older than the last one by more than this."""
    max_bytes: int
    """More than `max_entries` stay only while the stream takes no more than this."""

    @classmethod
    def allowed_by(cls, limits: settings.TrimLimits) -> "SmallEntries | None":
        """What the limits of a stream allow, None where `max_entries` alone counts."""
        if not limits.entry_s or not limits.entry_bytes:
            return None
        return cls(
            limits.max_entries, limits.max_entries * limits.entry_s * 1000, limits.max_entries * limits.entry_bytes
        )

    def boundary(self, last_id: str) -> str:
        """The id below which an entry is too old to be one too many, in a stream with this last id."""
        return entry_ids.format_id(max(0, math.floor(entry_ids.ms_of(last_id) - self.span_ms)))

    def entries_kept(self, entries: int, used_bytes: int) -> int:
        """How many of so many entries, which take so much memory, stay where they are all young enough."""
        if used_bytes <= self.max_bytes:
            return entries
        return max(self.max_entries, math.floor(entries * self.max_bytes / used_bytes))


def has_room(infos: Iterable[Mapping[str, str]]) -> bool:
    """Whether each server uses little enough of its memory, by its `INFO`. Without `maxmemory`, that of its host."""
    for info in infos:
        limit = int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))
        if limit and int(info.get("used_memory", 0)) > MEMORY_SHARE_MAX * limit:
            return False
    return True
