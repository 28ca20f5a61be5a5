"""Closed sessions that the archive does not have yet, and what trimming keeps for them. Pure.

Everything that trimming has to know about a session is in its member of the list in Redis, so that a sweep reads the
list and no session.
"""

from collections.abc import Iterable
from typing import Final, Self

import msgspec

from rta_wire import entry_ids

JSON_ONLY: Final = "+"
"""In place of a position: the archive has the data of the session, but its Session JSON has changed since."""


class UnarchivedSession(msgspec.Struct, frozen=True, order=True):
    """A session that the archive does not have as it is now."""

    stream_session_id: int
    stream: str
    position: str
    """The entry id after which the session begins, or `JSON_ONLY`."""
    identity: str

    @classmethod
    def parse(cls, member: bytes) -> Self:
        number, stream, position, identity = member.decode().split(" ", 3)
        return cls(int(number), stream, position, identity)

    @property
    def member(self) -> str:
        """The session in the list. Its identity comes last because it may hold spaces."""
        return f"{self.stream_session_id} {self.stream} {self.position} {self.identity}"

    @property
    def needs_entries(self) -> bool:
        """Whether its entries have to stay in Redis until they are archived."""
        return self.position != JSON_ONLY


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
            min((session.position for session in waiting), key=entry_ids.parse),
            tuple(waiting),
        )
        for stream, waiting in by_stream.items()
    }
