"""What a catalogue is: its rows, how two rows of one session are merged, and the methods of every implementation.

The implementations are in `sqlite` and `postgres`; when rows are written is decided in `writer`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rta_wire import entry_ids
from rta_wire.control.totals import Totals
from rta_wire.session import State

ProgressRow = tuple[str, int, bytes]
"""Identity, stream session id and totals as text. The totals are not parsed, since there are many rows every second."""


class CatalogueRow(msgspec.Struct, frozen=True):
    """One session at one time."""

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
    """The last id of its stream before its first entry. Too low costs a reader time, too high would cost it entries."""

    @property
    def key(self) -> tuple[str, int]:
        return self.identity, self.stream_session_id

    @property
    def page_cursor(self) -> tuple[int, str]:
        """Where the next page of a search begins after this row."""
        return self.stream_session_id, self.identity

    def merged_with(self, other: "CatalogueRow") -> "CatalogueRow":
        """One row from two rows of one session, the same in whichever order they were written.

        A closed row wins over an open one, then the higher version, which every change of JSON or state raises. Totals
        are cumulative, so that the higher ones count.
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
    """0: the entries of all sessions."""

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
    """What a search looks for. An absent field matches every session; a session has to match all fields."""

    text: str = ""
    """Words that are each a part of the identity, the identifier, a detail or another property."""

    states: tuple[State, ...] = ()
    stream: str = ""
    """A stream, or a source: then the streams of all its days."""

    since_ns: int | None = None
    until_ns: int | None = None
    """Sessions with data between the two times; of sessions without data those that were opened between them."""

    details: tuple[tuple[str, str], ...] = ()
    """Names and whole values of details. Those of `extDetails` are called `section.name`."""


def _rank(row: CatalogueRow) -> tuple[Any, ...]:
    return row.state.is_closed, row.version, row.state.value, row.json, row.stream, row.principal, row.position


class Catalogue(Protocol):
    """The methods of a catalogue. Each may raise `CatalogueUnavailable`."""

    @property
    def name(self) -> str:
        """Where the catalogue is, for people, without secrets."""

    @property
    def is_shared(self) -> bool:
        """Whether supervisors on other hosts write to the same catalogue."""

    async def open(self) -> None:
        """Connect and create what is missing. The other methods do that too: this one finds a problem early."""

    async def save(self, rows: Sequence[CatalogueRow]) -> None:
        """Save all rows or none, each merged with the stored row of its session."""

    async def save_progress(self, progress: Sequence[ProgressRow], *, at_ms: int) -> None:
        """Merge totals into the stored rows of sessions, all or none; a session without a row is left out."""

    async def get(self, identity: str) -> CatalogueRow | None:
        """The newest session of an identity."""

    async def closed(self, identities: Sequence[str]) -> list[CatalogueRow]:
        """Every closed session of these identities, of which there may be some hundred."""

    async def unfinished(self) -> list[CatalogueRow]:
        """Every session that is not closed, oldest id first."""

    async def find(self, query: Query, *, limit: int, before: tuple[int, str] | None = None) -> list[CatalogueRow]:
        """Sessions that match, highest id first. `before`: the `page_cursor` of the last row of the page before."""

    async def latest(self, count: int) -> list[str]:
        """Identities of the sessions that were opened last, newest first."""

    async def streams(self) -> list[str]:
        """Every stream that a session was ever in, in any order."""

    async def highest_id(self) -> int:
        """The highest stream session id of all, 0 where there is none."""

    async def save_locations(self, locations: Sequence[StorageLocation]) -> None:
        """Save all locations or none. A location of the same stream, session and kind is replaced."""

    async def delete_locations(self, locations: Sequence[StorageLocation]) -> None:
        """Delete the locations of the same streams, sessions and kinds, all or none. Missing ones are left out."""

    async def locations(self, stream: str) -> list[StorageLocation]:
        """Where the entries of a stream are; locations of all its sessions come first."""

    async def close(self) -> None:
        """Close the file or the connection. It may be repeated."""
