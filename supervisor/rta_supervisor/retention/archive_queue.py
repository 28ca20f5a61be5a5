"""Closed sessions that wait for the archive, as they are listed in Redis: all that trimming has to know of one is in
its name in the list, so that a sweep reads the list and nothing else."""

from typing import Final, Self

import msgspec

JSON_ONLY: Final = "+"


class UnarchivedSession(msgspec.Struct, frozen=True, order=True):
    """One of them."""

    stream_session_id: int
    stream: str
    position: str
    """The entry after which it begins; `+` where its data is in the archive and only its JSON is newer."""
    identity: str

    @classmethod
    def parse(cls, member: bytes) -> Self:
        number, stream, position, identity = member.decode().split(" ", 3)
        return cls(int(number), stream, position, identity)

    @property
    def member(self) -> str:
        return f"{self.stream_session_id} {self.stream} {self.position} {self.identity}"

    @property
    def holds_data(self) -> bool:
        return self.position != JSON_ONLY
