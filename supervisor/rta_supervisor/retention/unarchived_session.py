"""A session that the archive does not have yet, open or closed, and its member of the sorted set `unarchived`. Pure.

Closed ones are members of that set. Everything that trimming has to know about a session is in its member, so that a
sweep reads the set and no session.
"""

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
    """The entry id after which the archive has nothing of the session, or `JSON_ONLY`."""
    identity: str

    @classmethod
    def parse(cls, member: bytes) -> Self:
        number, stream, position, identity = member.decode().split(" ", 3)
        return cls(int(number), stream, position, identity)

    @property
    def member(self) -> str:
        """The session as a member of the set `unarchived`. Its identity comes last because it may hold spaces."""
        return f"{self.stream_session_id} {self.stream} {self.position} {self.identity}"

    @property
    def needs_entries(self) -> bool:
        """Whether its entries have to stay in Redis until they are archived."""
        return self.position != JSON_ONLY


def first_unarchived(position: bytes | None, archived_until: bytes | None) -> str:
    """The entry id after which the archive has nothing of a session: where its parts end, or where it begins.

    `position` is the field `streamPosition` of its hash, `archived_until` the field of that name of its state.
    """
    begin = entry_ids.MIN if position is None else position.decode()
    if archived_until is None:
        return begin
    return max(begin, archived_until.decode().partition(" ")[0], key=entry_ids.parse)
