"""The statements of SQL that SQLite and PostgreSQL share, and the values that go into them. Pure.

Two rows of a session are merged as `CatalogueRow.merged_with` does it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rta_supervisor.catalogue import search_text
from rta_supervisor.catalogue.model import (
    CatalogueExternalId,
    CatalogueRow,
    ProgressRow,
    Query,
    StorageLocation,
)
from rta_wire import day_streams
from rta_wire.control.totals import Totals
from rta_wire.session import State

INT64_MAX: Final = 2**63 - 1
MS_NS: Final = 10**6

COLUMNS: Final = (
    *("identity", "stream_session_id", "stream", "principal", "state", "closed", "json", "version"),
    *("bursts", "samples", "raw_bytes", "stored_bytes", "start_ns", "end_ns", "opened_ms", "updated_ms"),
    *("position", "words"),
)
READ_COLUMNS: Final = COLUMNS[:-1]
LOCATION_COLUMNS: Final = StorageLocation.__struct_fields__
EXTERNAL_IDS: Final = "external_ids"
"""The table of external ids. It is no part of a version of the schema, and older supervisors use the catalogue beside
it: so it is created where it is missing."""

BY_PRINCIPAL: Final = "sessions_by_principal"
"""The index by which the sessions of a principal are found. It is created as the table of external ids is."""

CREATE_BY_PRINCIPAL: Final = (
    f"CREATE INDEX IF NOT EXISTS {BY_PRINCIPAL} ON sessions (principal, stream_session_id, identity)"
)

EXTERNAL_ID_COLUMNS: Final = CatalogueExternalId.__struct_fields__
_RANK: Final = ("closed", "version", "state", "json", "stream", "principal", "position")
_CHOSEN: Final = ("stream", "principal", "state", "closed", "json", "version", "position", "words")
_COUNTS: Final = ("bursts", "samples", "raw_bytes", "stored_bytes")
_NEWEST: Final = "ORDER BY stream_session_id DESC, identity DESC"

# ruff: noqa: S608 - statements are made of constants


class Dialect(NamedTuple):
    """How the SQL of a database differs from that of others."""

    placeholder: str
    """Stands for a value in a statement."""
    least: str
    greatest: str
    """Functions that return the lowest and the highest of their arguments."""
    within: str
    """The function that returns the position of a text in another, 0 where it is not there."""
    tables: str
    """The statement that returns the names of all tables."""


class Statements:
    """All statements in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        mark = dialect.placeholder
        new_wins = f"({_qualified('excluded', _RANK)}) > ({_qualified('sessions', _RANK)})"
        chosen = (f"{name} = CASE WHEN {new_wins} THEN excluded.{name} ELSE sessions.{name} END" for name in _CHOSEN)
        merged = (
            *(_merged(dialect.least, name, f"excluded.{name}") for name in ("opened_ms", "start_ns")),
            *(_merged(dialect.greatest, name, f"excluded.{name}") for name in (*_COUNTS, "end_ns", "updated_ms")),
        )
        self.select: Final = f"SELECT {', '.join(READ_COLUMNS)} FROM sessions"
        self.upsert: Final = (
            f"INSERT INTO sessions ({', '.join(COLUMNS)}) VALUES ({self._marks(len(COLUMNS))}) "
            "ON CONFLICT (identity, stream_session_id) DO UPDATE SET " + ", ".join((*chosen, *merged))
        )
        progress = (
            *(f"{name} = {dialect.greatest}({name}, {mark})" for name in (*_COUNTS, "updated_ms")),
            _merged(dialect.least, "start_ns", mark),
            _merged(dialect.greatest, "end_ns", mark),
        )
        self.progress: Final = (
            f"UPDATE sessions SET {', '.join(progress)} WHERE identity = {mark} AND stream_session_id = {mark}"
        )
        self.newest: Final = f"{self.select} WHERE identity = {mark} ORDER BY stream_session_id DESC LIMIT 1"
        self.unfinished: Final = f"{self.select} WHERE closed = 0 ORDER BY stream_session_id"
        self.latest: Final = f"SELECT identity FROM sessions ORDER BY stream_session_id DESC LIMIT {mark}"
        self.page_after: Final = (
            f"{self.select} WHERE (stream_session_id, identity) > ({mark}, {mark}) "
            f"ORDER BY stream_session_id, identity LIMIT {mark}"
        )
        self.versions: Final = "SELECT identity, stream_session_id, version, updated_ms FROM sessions"
        self.streams: Final = "SELECT DISTINCT stream FROM sessions"
        self.highest: Final = "SELECT max(stream_session_id) FROM sessions"
        replaced = ", ".join(f"{name} = excluded.{name}" for name in LOCATION_COLUMNS[3:])
        self.upsert_location: Final = (
            f"INSERT INTO places ({', '.join(LOCATION_COLUMNS)}) VALUES ({self._marks(len(LOCATION_COLUMNS))}) "
            f"ON CONFLICT (stream, stream_session_id, kind) DO UPDATE SET {replaced}"
        )
        self.delete_location: Final = (
            f"DELETE FROM places WHERE stream = {mark} AND stream_session_id = {mark} AND kind = {mark}"
        )
        self.select_locations: Final = (
            f"SELECT {', '.join(LOCATION_COLUMNS)} FROM places WHERE stream = {mark} ORDER BY stream_session_id, kind"
        )

        self.tables: Final = dialect.tables
        self.upsert_external_id: Final = (
            f"INSERT INTO {EXTERNAL_IDS} ({', '.join(EXTERNAL_ID_COLUMNS)}) "
            f"VALUES ({self._marks(len(EXTERNAL_ID_COLUMNS))}) ON CONFLICT DO NOTHING"
        )
        self.select_external_ids: Final = (
            f"SELECT {', '.join(EXTERNAL_ID_COLUMNS)} FROM {EXTERNAL_IDS} WHERE external_id = {mark} {_NEWEST}"
        )

        self.unfinished_external_ids: Final = (
            f"SELECT {_qualified(EXTERNAL_IDS, EXTERNAL_ID_COLUMNS)} FROM {EXTERNAL_IDS} "
            "JOIN sessions USING (identity, stream_session_id) WHERE sessions.closed = 0"
        )

    def closed(self, count: int) -> str:
        """Closed sessions of so many identities."""
        return f"{self.select} WHERE closed = 1 AND identity IN ({self._marks(count)})"

    def find(
        self, query: Query, before: tuple[int, str] | None, limit: int, json_max_chars: int | None = None
    ) -> tuple[str, list[Any]]:
        """The statement of a search and its values. Rows are found by their keys first: their JSON may be large.

        `json_max_chars`: JSON that is longer is left out.
        """
        conditions, values = self._conditions(query, before)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        keys = f"SELECT identity, stream_session_id FROM sessions{where} {_NEWEST} LIMIT {self._dialect.placeholder}"
        if json_max_chars is None:
            select = self.select
        else:
            json = f"CASE WHEN length(json) > {json_max_chars:d} THEN '' ELSE json END"
            select = f"SELECT {', '.join(json if name == 'json' else name for name in READ_COLUMNS)} FROM sessions"
        statement = f"{select} WHERE (identity, stream_session_id) IN ({keys}) {_NEWEST}"
        return statement, [*values, limit]

    def archive_folders(self, count: int) -> str:
        """Where the files of so many sessions are, which are named by stream and stream session id."""
        pairs = ", ".join([f"({self._marks(2)})"] * count)
        return (
            "SELECT stream, stream_session_id, location FROM places "
            f"WHERE kind = {self._dialect.placeholder} AND (stream, stream_session_id) IN (VALUES {pairs})"
        )

    def _conditions(self, query: Query, before: tuple[int, str] | None) -> tuple[list[str], list[Any]]:
        """What a row has to fulfil, and the values of all conditions."""
        mark = self._dialect.placeholder
        terms = [search_text.substring_term(word) for word in query.text.split()]
        terms += [search_text.detail_term(name, value) for name, value in query.details]
        conditions: list[tuple[str, list[Any]]] = [
            (f"{self._dialect.within}(words, {mark}) > 0", [term]) for term in terms
        ]
        if query.states:
            states = [state.value for state in query.states]
            conditions.append((f"state IN ({self._marks(len(states))})", list(states)))
        if query.stream:
            size = len(query.stream)
            is_day = f"(length(stream) = {mark} AND substr(stream, 1, {mark}) = {mark})"
            day_values = [size + day_streams.SUFFIX_CHARS, size + 1, f"{query.stream}."]
            conditions.append((f"(stream = {mark} OR {is_day})", [query.stream, *day_values]))
        if query.principal:
            conditions.append((f"principal = {mark}", [query.principal]))
        if query.external_id:
            named = f"SELECT identity, stream_session_id FROM {EXTERNAL_IDS} WHERE external_id = {mark}"
            conditions.append((f"(identity, stream_session_id) IN ({named})", [query.external_id]))
        for column, sign, bound in (("end_ns", ">=", query.since_ns), ("start_ns", "<=", query.until_ns)):
            if bound is not None:
                condition = f"(({column} {sign} {mark}) OR ({column} IS NULL AND opened_ms {sign} {mark}))"
                conditions.append((condition, [bound, bound // MS_NS]))
        if before is not None:
            conditions.append((f"(stream_session_id, identity) < ({mark}, {mark})", list(before)))
        return [condition for condition, _ in conditions], [value for _, values in conditions for value in values]

    def _marks(self, count: int) -> str:
        return ", ".join([self._dialect.placeholder] * count)


def _merged(function: str, column: str, new: str) -> str:
    """An assignment of the lower or higher of the old and the new value, or of the one that is not NULL.

    The new value is in it twice.
    """
    old = f"sessions.{column}"
    return f"{column} = {function}(coalesce({old}, {new}), coalesce({new}, {old}))"


def _qualified(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def row_values(row: CatalogueRow) -> tuple[Any, ...]:
    """The values of a row, in the order of `COLUMNS`."""
    return (
        *(row.identity, row.stream_session_id, row.stream, row.principal, row.state.value),
        *(int(row.state.is_closed), row.json, row.version),
        *_numbers(row.totals),
        *(row.opened_ms, row.updated_ms, row.position, search_text.search_text(row.identity, row.json)),
    )


def progress_values(progress: ProgressRow, at_ms: int) -> tuple[Any, ...]:
    """The values of the statement `progress`."""
    identity, number, totals = progress
    *counts, start_ns, end_ns = (None if total == b"-" else min(int(total), INT64_MAX) for total in totals.split())
    return *counts, at_ms, start_ns, start_ns, end_ns, end_ns, identity, number


def _numbers(totals: Totals) -> list[int | None]:
    """Totals, at most as large as a column holds: a count that a writer made up keeps no other row from being saved."""
    return [None if number is None else min(number, INT64_MAX) for number in msgspec.structs.astuple(totals)]


def parse_row(columns: Sequence[Any]) -> CatalogueRow:
    """From the values of `READ_COLUMNS`."""
    identity, number, stream, principal, state, _, json, version, *rest = columns
    *totals, opened_ms, updated_ms, position = rest
    times = (opened_ms, updated_ms)
    return CatalogueRow(
        identity, stream, number, principal, State(state), json, Totals(*totals), version, *times, position
    )
