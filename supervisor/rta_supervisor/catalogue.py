"""The catalogue: every session that ever was, outside Redis, read when Redis forgot. Never part of the hot path.

Owns what a catalogue is and how two rows of one session are joined. Where rows are kept is up to an implementation
(`sqlite_catalogue`), and when they are written is up to the archivist.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rta_wire.session import State
from rta_wire.totals import Totals

Progress = tuple[str, int, Sequence[bytes]]
"""Identity, stream session id and totals, as the words that Redis has for them: there are many of them every second."""


class Row(msgspec.Struct, frozen=True):
    """One session as it stood at a moment."""

    identity: str
    stream: str
    stream_session_id: int
    principal: str
    state: State
    json: str
    totals: Totals
    version: int
    opened_ms: int
    updated_ms: int

    @property
    def key(self) -> tuple[str, int]:
        return self.identity, self.stream_session_id

    def joined(self, other: "Row") -> "Row":
        """What two rows of one session say together, in whichever order they came.

        Closed beats open, then the higher version, which is raised by every change of JSON or state. Totals are
        cumulative and only grow.
        """
        winner = max(self, other, key=_rank)
        return msgspec.structs.replace(
            winner,
            totals=self.totals.joined(other.totals),
            opened_ms=min(self.opened_ms, other.opened_ms),
            updated_ms=max(self.updated_ms, other.updated_ms),
        )


def _rank(row: Row) -> tuple[Any, ...]:
    return row.state.is_closed, row.version, row.state.value, row.json, row.stream, row.principal


class Place(msgspec.Struct, frozen=True):
    """Where entries of a stream, or of one session of it, are kept."""

    stream: str
    stream_session_id: int
    """0: of all sessions."""
    kind: str
    """"live", "cold" or "files"."""
    location: str
    """A key, or a folder."""
    first_id: str
    last_id: str
    entries: int
    size_bytes: int
    noted_ms: int


class Catalogue(Protocol):
    """What the supervisor asks of a catalogue. Every method may raise CatalogueUnavailable."""

    async def open(self) -> None:
        """Make it ready. The other methods do so too: this one is for finding out early."""

    async def save(self, rows: Sequence[Row]) -> None:
        """All rows or none, each joined with what is stored of its session."""

    async def save_progress(self, progress: Sequence[Progress], *, at_ms: int) -> None:
        """How far sessions have come, joined with what is stored. All or none; who is not stored is left out."""

    async def get(self, identity: str) -> Row | None:
        """The newest session of that identity."""

    async def get_all(self, identities: Sequence[str]) -> list[Row]:
        """The same for some hundred at once; those that there are, in any order."""

    async def unfinished(self) -> list[Row]:
        """Every session that is not closed, oldest id first."""

    async def latest(self, count: int) -> list[str]:
        """Identities of the sessions that were opened last, newest first."""

    async def highest_id(self) -> int:
        """The highest stream session id of all, 0 where there is none."""

    async def save_places(self, places: Sequence[Place]) -> None:
        """All or none, each in place of what is stored of its stream, session and kind."""

    async def drop_places(self, places: Sequence[Place]) -> None:
        """Those of the same streams, sessions and kinds, if they are there."""

    async def places(self, stream: str) -> list[Place]:
        """Where a stream and its sessions are kept."""

    async def close(self) -> None:
        """Let go of the file. Repeating it is harmless."""
