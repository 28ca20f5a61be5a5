"""The archive floor of a stream: entries below it may be trimmed, those above it the archive needs. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings
from rta_wire import entry_ids

UNLIMITED_ENTRIES: Final = 2**53
"""More than any stream has, and a whole number in Lua."""


class ArchiveFloor(msgspec.Struct, frozen=True):
    """What trimming keeps of one stream for the archive."""

    position: str
    """Entries after this id stay."""
    sessions: tuple[UnarchivedSession, ...]
    """Sessions of the stream that the archive does not have."""

    def sessions_cut_before(self, first_id: str) -> list[UnarchivedSession]:
        """Sessions that begin before `first_id`: they miss entries where the stream begins with it."""
        return [session for session in self.sessions if entry_ids.is_after(first_id, session.position)]


def floors_by_stream(sessions: Iterable[UnarchivedSession]) -> dict[str, ArchiveFloor]:
    """The floor of each stream: the lowest position of a session in it. Every session needs its entries."""
    by_stream: dict[str, list[UnarchivedSession]] = {}
    for session in sessions:
        by_stream.setdefault(session.stream, []).append(session)
    return {
        stream: ArchiveFloor(
            min((session.position for session in unarchived), key=entry_ids.parse),
            tuple(unarchived),
        )
        for stream, unarchived in by_stream.items()
    }


def limits_past_floor(limits: settings.TrimLimits, max_bytes: int) -> settings.TrimLimits:
    """The limits of a stream that takes too much memory to wait for the archive: the memory alone counts."""
    return msgspec.structs.replace(limits, max_entries=UNLIMITED_ENTRIES, max_bytes=max_bytes, max_age_s=0)
