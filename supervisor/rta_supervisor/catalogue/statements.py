"""The SQL that a SQLite file and a PostgreSQL share. What joins two rows of a session here is `Row.joined` there."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rta_supervisor.catalogue import search_text
from rta_supervisor.catalogue.model import CatalogueRow, ProgressRow, Query, StorageLocation
from rta_wire.control.totals import Totals
from rta_wire.session import State

INT64_MAX: Final = 2**63 - 1
MS_NS: Final = 10**6
DAY_SUFFIX_CHARS: Final = 9
"""What the streams of single days have behind the name of their source: a dot and a date."""

COLUMNS: Final = (
    *("identity", "stream_session_id", "stream", "principal", "state", "closed", "json", "version"),
    *("bursts", "samples", "raw_bytes", "stored_bytes", "start_ns", "end_ns", "opened_ms", "updated_ms"),
    *("position", "words"),
)
READ_COLUMNS: Final = COLUMNS[:-1]
LOCATION_COLUMNS: Final = StorageLocation.__struct_fields__
_RANK: Final = ("closed", "version", "state", "json", "stream", "principal", "position")
_CHOSEN: Final = ("stream", "principal", "state", "closed", "json", "version", "position", "words")
_COUNTS: Final = ("bursts", "samples", "raw_bytes", "stored_bytes")
_NEWEST: Final = "ORDER BY stream_session_id DESC, identity DESC"

# ruff: noqa: S608 - all of it is made of constants


class Dialect(NamedTuple):
    """Where the two differ."""

    placeholder: str
    """Stands for a value."""
    least: str
    greatest: str
    within: str
    """The function that says where a text stands in another."""


class Statements:
    """All of them for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        mark = dialect.placeholder
        won = f"({_all('excluded', _RANK)}) > ({_all('sessions', _RANK)})"
        grown = (
            _either(dialect.least, "start_ns", "excluded.start_ns"),
            *(_either(dialect.greatest, name, f"excluded.{name}") for name in (*_COUNTS, "end_ns", "updated_ms")),
        )
        opened = _either(dialect.least, "opened_ms", "excluded.opened_ms")
        chosen = (f"{name} = CASE WHEN {won} THEN excluded.{name} ELSE sessions.{name} END" for name in _CHOSEN)
        self.select: Final = f"SELECT {', '.join(READ_COLUMNS)} FROM sessions"
        self.upsert: Final = (
            f"INSERT INTO sessions ({', '.join(COLUMNS)}) VALUES ({self._marks(COLUMNS)}) "
            "ON CONFLICT (identity, stream_session_id) DO UPDATE SET " + ", ".join((*chosen, opened, *grown))
        )
        progress = (
            *(f"{name} = {dialect.greatest}({name}, {mark})" for name in (*_COUNTS, "updated_ms")),
            _either(dialect.least, "start_ns", mark),
            _either(dialect.greatest, "end_ns", mark),
        )
        self.progress: Final = (
            f"UPDATE sessions SET {', '.join(progress)} WHERE identity = {mark} AND stream_session_id = {mark}"
        )
        self.newest: Final = f"{self.select} WHERE identity = {mark} ORDER BY stream_session_id DESC LIMIT 1"
        self.unfinished: Final = f"{self.select} WHERE closed = 0 ORDER BY stream_session_id"
        self.latest: Final = f"SELECT identity FROM sessions ORDER BY stream_session_id DESC LIMIT {mark}"
        self.streams: Final = "SELECT DISTINCT stream FROM sessions"
        self.highest: Final = "SELECT max(stream_session_id) FROM sessions"
        replaced = ", ".join(f"{name} = excluded.{name}" for name in LOCATION_COLUMNS[3:])
        self.upsert_location: Final = (
            f"INSERT INTO places ({', '.join(LOCATION_COLUMNS)}) VALUES ({self._marks(LOCATION_COLUMNS)}) "
            f"ON CONFLICT (stream, stream_session_id, kind) DO UPDATE SET {replaced}"
        )
        self.delete_location: Final = (
            f"DELETE FROM places WHERE stream = {mark} AND stream_session_id = {mark} AND kind = {mark}"
        )
        self.select_locations: Final = (
            f"SELECT {', '.join(LOCATION_COLUMNS)} FROM places WHERE stream = {mark} ORDER BY stream_session_id, kind"
        )

    def closed(self, count: int) -> str:
        marks = ", ".join([self._dialect.placeholder] * count)
        return f"{self.select} WHERE closed = 1 AND identity IN ({marks})"

    def find(self, query: Query, before: tuple[int, str] | None, limit: int) -> tuple[str, list[Any]]:
        """Which rows there are is found without reading one: their JSON may be large."""
        tests, values = self._tests(query, before)
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        keys = f"SELECT identity, stream_session_id FROM sessions{where} {_NEWEST} LIMIT {self._dialect.placeholder}"
        statement = f"{self.select} WHERE (identity, stream_session_id) IN ({keys}) {_NEWEST}"
        return statement, [*values, limit]

    def _tests(self, query: Query, before: tuple[int, str] | None) -> tuple[list[str], list[Any]]:
        mark = self._dialect.placeholder
        needles = [search_text.substring_term(part) for part in query.text.split()]
        needles += [search_text.detail_term(name, value) for name, value in query.details]
        found: list[tuple[str, list[Any]]] = [(f"{self._dialect.within}(words, {mark}) > 0", [one]) for one in needles]
        if query.states:
            states = [state.value for state in query.states]
            found.append((f"state IN ({', '.join([mark] * len(states))})", list(states)))
        if query.stream:
            size = len(query.stream)
            days = f"(length(stream) = {mark} AND substr(stream, 1, {mark}) = {mark})"
            found.append(
                (f"(stream = {mark} OR {days})", [query.stream, size + DAY_SUFFIX_CHARS, size + 1, f"{query.stream}."])
            )
        for column, sign, bound in (("end_ns", ">=", query.since_ns), ("start_ns", "<=", query.until_ns)):
            if bound is not None:
                test = f"(({column} {sign} {mark}) OR ({column} IS NULL AND opened_ms {sign} {mark}))"
                found.append((test, [bound, bound // MS_NS]))
        if before is not None:
            found.append((f"(stream_session_id, identity) < ({mark}, {mark})", list(before)))
        return [test for test, _ in found], [value for _, values in found for value in values]

    def _marks(self, names: Sequence[str]) -> str:
        return ", ".join([self._dialect.placeholder] * len(names))


def _either(choose: str, column: str, new: str) -> str:
    """The lower or higher of two, or the one that is not NULL. The new one stands there twice."""
    old = f"sessions.{column}"
    return f"{column} = {choose}(coalesce({old}, {new}), coalesce({new}, {old}))"


def _all(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def values(row: CatalogueRow) -> tuple[Any, ...]:
    """For COLUMNS."""
    return (
        *(row.identity, row.stream_session_id, row.stream, row.principal, row.state.value),
        *(int(row.state.is_closed), row.json, row.version),
        *_numbers(row.totals),
        *(row.opened_ms, row.updated_ms, row.position, search_text.search_text(row.identity, row.json)),
    )


def progress_values(progress: ProgressRow, at_ms: int) -> tuple[Any, ...]:
    """For the statement of that name."""
    identity, number, totals = progress
    *counts, start_ns, end_ns = (None if word == b"-" else min(int(word), INT64_MAX) for word in totals.split())
    return *counts, at_ms, start_ns, start_ns, end_ns, end_ns, identity, number


def _numbers(totals: Totals) -> list[int | None]:
    """A count that a writer made up must not keep every other row from being saved."""
    return [None if number is None else min(number, INT64_MAX) for number in msgspec.structs.astuple(totals)]


def parse_row(found: Sequence[Any]) -> CatalogueRow:
    """Of READ."""
    identity, number, stream, principal, state, _, json, version, *rest = found
    *totals, opened_ms, updated_ms, position = rest
    times = (opened_ms, updated_ms)
    return CatalogueRow(
        identity, stream, number, principal, State(state), json, Totals(*totals), version, *times, position
    )
