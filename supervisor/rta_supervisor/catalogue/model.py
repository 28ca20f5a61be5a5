"""The catalogue: every session that ever was, outside Redis, read when Redis forgot. Never part of the hot path.

Owns what a catalogue is and how two rows of one session are joined. Where rows are kept is up to an implementation
(`sqlite_catalogue`, `postgres_catalogue`), and when they are written is up to the archivist.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rta_wire import entry_ids
from rta_wire.control.totals import Totals
from rta_wire.session import State

ProgressRow = tuple[str, int, bytes]
"""Identity, stream session id and totals, as Redis has them: there are many of them every second."""


class CatalogueRow(msgspec.Struct, frozen=True):
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
    position: str = entry_ids.MIN
    """Where its stream ended before its first entry. Too low costs a reader time, too high would cost it entries."""

    @property
    def key(self) -> tuple[str, int]:
        return self.identity, self.stream_session_id

    @property
    def page_cursor(self) -> tuple[int, str]:
        """Its place among what is found."""
        return self.stream_session_id, self.identity

    def merged_with(self, other: "CatalogueRow") -> "CatalogueRow":
        """What two rows of one session say together, in whichever order they came.

        Closed beats open, then the higher version, which is raised by every change of JSON or state. Totals are
        cumulative and only grow.
        """
        winner = max(self, other, key=_rank)
        return msgspec.structs.replace(
            winner,
            totals=self.totals.max_of(other.totals),
            opened_ms=min(self.opened_ms, other.opened_ms),
            updated_ms=max(self.updated_ms, other.updated_ms),
        )


class StorageLocation(msgspec.Struct, frozen=True):
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

    @property
    def key(self) -> tuple[str, int, str]:
        return self.stream, self.stream_session_id, self.kind


class Query(msgspec.Struct, frozen=True):
    """What to look for. What is absent is not asked for; all that is asked for has to be true of a session."""

    text: str = ""
    """Words, a part of each of which stands in the identity, the identifier, the details or another name."""

    states: tuple[State, ...] = ()
    stream: str = ""
    """One, or the streams of all days of a source."""

    since_ns: int | None = None
    until_ns: int | None = None
    """Sessions with data between the two; those without data if they were opened between them."""

    details: tuple[tuple[str, str], ...] = ()
    """Names with the whole of their values. Those of `extDetails` are called `section.name`."""


def _rank(row: CatalogueRow) -> tuple[Any, ...]:
    return row.state.is_closed, row.version, row.state.value, row.json, row.stream, row.principal, row.position


class Catalogue(Protocol):
    """What the supervisor asks of a catalogue. Every method may raise CatalogueUnavailable."""

    @property
    def name(self) -> str:
        """Where it is, for people: no secret is in it."""

    @property
    def is_shared(self) -> bool:
        """Whether supervisors on other hosts write to the same one."""

    async def open(self) -> None:
        """Make it ready. The other methods do so too: this one is for finding out early."""

    async def save(self, rows: Sequence[CatalogueRow]) -> None:
        """All rows or none, each joined with what is stored of its session."""

    async def save_progress(self, progress: Sequence[ProgressRow], *, at_ms: int) -> None:
        """How far sessions have come, joined with what is stored. All or none; who is not stored is left out."""

    async def get(self, identity: str) -> CatalogueRow | None:
        """The newest session of that identity."""

    async def closed(self, identities: Sequence[str]) -> list[CatalogueRow]:
        """Every session of these identities that is closed, for some hundred of them at once."""

    async def unfinished(self) -> list[CatalogueRow]:
        """Every session that is not closed, oldest id first."""

    async def find(self, query: Query, *, limit: int, before: tuple[int, str] | None = None) -> list[CatalogueRow]:
        """Sessions by the highest id first. `before`: those after the one of this mark, for the next page."""

    async def latest(self, count: int) -> list[str]:
        """Identities of the sessions that were opened last, newest first."""

    async def streams(self) -> list[str]:
        """Every stream that a session was ever in, in any order."""

    async def highest_id(self) -> int:
        """The highest stream session id of all, 0 where there is none."""

    async def save_locations(self, places: Sequence[StorageLocation]) -> None:
        """All or none. One of the same stream, session and kind is replaced."""

    async def delete_locations(self, places: Sequence[StorageLocation]) -> None:
        """Forget those of the same streams, sessions and kinds. All or none; who is not stored is left out."""

    async def locations(self, stream: str) -> list[StorageLocation]:
        """Where the entries of a stream are, those of all its sessions first."""

    async def close(self) -> None:
        """Let go of the file or the connection. Repeating it is harmless."""
