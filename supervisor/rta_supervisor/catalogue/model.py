"""Values of the catalogue: its rows, how two rows of one session are merged, where entries are stored, and queries.
Pure.
"""

from typing import Any, Final

import msgspec

from rta_wire import entry_ids
from rta_wire.control.totals import Totals
from rta_wire.session import State

ProgressRow = tuple[str, int, bytes]
"""Identity, stream session id and totals as text. The totals are not parsed, since there are many rows every second."""

RowVersion = tuple[str, int, int, int]
"""Identity, stream session id and version of a row, and when it was last updated, in ms."""


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


class CatalogueExternalId(msgspec.Struct, frozen=True):
    """The external id that a principal gave to a session."""

    external_id: str
    principal: str
    identity: str
    stream_session_id: int

    @property
    def key(self) -> tuple[str, int]:
        return self.identity, self.stream_session_id


class ConfigInfo(msgspec.Struct, frozen=True):
    """What a list of configurations says about each."""

    identifier: str
    principal: str
    """Who published it first."""

    application: str
    channels: int
    events: int
    size_bytes: int
    published_ms: int


class ConfigRow(msgspec.Struct, frozen=True):
    """A configuration that was published."""

    info: ConfigInfo
    data: bytes
    """Its JSON."""


FILES: Final = "files"
"""The kind of a location in the archive."""


class StorageLocation(msgspec.Struct, frozen=True):
    """Where entries of a stream, or of one session of it, are kept."""

    stream: str
    stream_session_id: int
    """0: the entries of all sessions."""

    kind: str
    """"live", "cold" or "files"; where they are shown also "part" and "damaged part", of files."""

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

    external_id: str = ""
    """The whole external id."""

    details: tuple[tuple[str, str], ...] = ()
    """Names and whole values of details. Those of `extDetails` are called `section.name`."""

    principal: str = ""
    """The principal that opened the session."""


def _rank(row: CatalogueRow) -> tuple[Any, ...]:
    return row.state.is_closed, row.version, row.state.value, row.json, row.stream, row.principal, row.position
