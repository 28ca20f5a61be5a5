"""The SQL of the tables of publications, which SQLite and PostgreSQL share. Pure.

A publication is pending until the end of its session is delivered. One that is refused stays so until the session
changes or an operator has it tried again.
"""

from typing import Final

PUBLICATIONS: Final = "publications"
MARKS: Final = "publication_marks"
SCHEMA: Final = 1
"""The version of both tables, which stands in the second one from version 2 on: the version of the catalogue does not
count them."""

CLOSED_INDEX: Final = "sessions_closed_by_change"
PENDING_INDEX: Final = "publications_pending"
REFUSED_INDEX: Final = "publications_refused"

# ruff: noqa: S608 - statements are made of constants

_TEXT: Final = {"sqlite": "TEXT", "postgres": 'TEXT COLLATE "C"'}

JSON_COMPARED_MAX_CHARS: Final = 4096
"""Longer Session JSON is read only where its version was not delivered, or has no digest."""

_DIFFERS: Final = "(s.version <> p.version OR s.state <> p.state)"
_GREW: Final = (
    "(s.start_ns IS NOT NULL AND s.end_ns IS NOT NULL AND "
    "(p.start_ns IS NULL OR p.end_ns IS NULL OR s.start_ns < p.start_ns OR s.end_ns > p.end_ns))"
)
_IS_NEWEST: Final = (
    "NOT EXISTS (SELECT 1 FROM sessions n WHERE n.identity = s.identity AND n.stream_session_id > s.stream_session_id)"
)
_NOT_REFUSED: Final = "(p.refused = '' OR s.version <> p.refused_version OR s.state <> p.refused_state)"
_JOINED: Final = (
    f"{PUBLICATIONS} p JOIN sessions s ON s.identity = p.identity AND s.stream_session_id = p.stream_session_id "
    f"WHERE p.pending = 1 AND {_NOT_REFUSED}"
)


def create(dialect: str) -> tuple[str, ...]:
    """The statements that create what is missing, for `sqlite` or `postgres`."""
    text = _TEXT[dialect]
    return (
        f"""CREATE TABLE IF NOT EXISTS {PUBLICATIONS} (
            identity {text} PRIMARY KEY, stream_session_id BIGINT NOT NULL, version BIGINT NOT NULL,
            state {text} NOT NULL, digest {text} NOT NULL, start_ns BIGINT, end_ns BIGINT, categories {text} NOT NULL,
            sequence BIGINT NOT NULL, noted_ms BIGINT NOT NULL, told_ms BIGINT NOT NULL, pending SMALLINT NOT NULL,
            refused {text} NOT NULL, refused_version BIGINT NOT NULL, refused_state {text} NOT NULL,
            skipped_version BIGINT NOT NULL)""",
        f"CREATE TABLE IF NOT EXISTS {MARKS} (name {text} PRIMARY KEY, number BIGINT NOT NULL)",
        f"CREATE INDEX IF NOT EXISTS {PENDING_INDEX} ON {PUBLICATIONS} (identity) WHERE pending = 1",
        f"CREATE INDEX IF NOT EXISTS {REFUSED_INDEX} ON {PUBLICATIONS} (identity) WHERE refused <> ''",
        # Sessions that came and went between two looks are found by it. Progress of open sessions does not touch it.
        f"CREATE INDEX IF NOT EXISTS {CLOSED_INDEX} ON sessions (updated_ms) WHERE closed = 1",
    )


class PublicationStatements:
    """All statements, with the placeholder of a database."""

    def __init__(self, placeholder: str, greatest: str) -> None:
        mark = placeholder
        self.note_unfinished: Final = _note(mark, "s.closed = 0", "")
        changed = f"p.pending = 0 AND s.version <> p.skipped_version AND ({_DIFFERS} OR {_GREW})"
        self.note_closed: Final = _note(
            mark,
            f"s.closed = 1 AND s.updated_ms >= {mark}",
            f"OR (s.stream_session_id = p.stream_session_id AND {changed})",
        )
        is_read = f"{_DIFFERS} OR p.digest = '' OR length(s.json) <= {JSON_COMPARED_MAX_CHARS}"
        json = f"CASE WHEN {is_read} THEN s.json ELSE '' END"
        # Told before a time, or in what is the future by a clock that has gone back since.
        is_old = f"(p.told_ms <= {mark} OR p.told_ms > {mark})"
        self.due: Final = (
            f"SELECT s.identity, s.stream_session_id, s.principal, s.version, s.state, {json}, s.start_ns, s.end_ns, "
            "p.version, p.state, p.digest, p.start_ns, p.end_ns, p.categories, p.told_ms, p.noted_ms "
            f"FROM {_JOINED} AND ({_DIFFERS} OR ({is_old} AND {_GREW}) "
            f"OR (s.closed = 0 AND {is_old}) OR (s.closed = 1 AND {_GREW})) "
            f"ORDER BY CASE WHEN {_DIFFERS} THEN 0 ELSE 1 END, p.told_ms, s.stream_session_id LIMIT {mark}"
        )
        since = "CASE WHEN p.told_ms > p.noted_ms THEN p.told_ms ELSE p.noted_ms END"
        self.backlog: Final = f"SELECT count(*), min({since}) FROM {_JOINED} AND ({_DIFFERS} OR {_GREW})"
        self.refused_count: Final = f"SELECT count(*) FROM {PUBLICATIONS} WHERE refused <> ''"
        self.refused: Final = (
            f"SELECT identity, refused FROM {PUBLICATIONS} WHERE refused <> '' ORDER BY identity LIMIT {mark}"
        )
        self.get: Final = (
            f"SELECT sequence, version, told_ms, pending, refused FROM {PUBLICATIONS} WHERE identity = {mark}"
        )
        this = f"WHERE identity = {mark} AND stream_session_id = {mark} AND sequence < {mark}"
        self.save_delivery: Final = (
            f"UPDATE {PUBLICATIONS} SET version = {mark}, state = {mark}, digest = {mark}, start_ns = {mark}, "
            f"end_ns = {mark}, categories = CASE WHEN categories = {mark} THEN {mark} ELSE categories END, "
            f"sequence = {mark}, told_ms = {mark}, pending = {mark}, refused = '' {this}"
        )
        self.save_refusal: Final = (
            f"UPDATE {PUBLICATIONS} SET refused = {mark}, refused_version = {mark}, refused_state = {mark} "
            f"WHERE identity = {mark} AND stream_session_id = {mark}"
        )
        self.add_categories: Final = (
            f"UPDATE {PUBLICATIONS} SET categories = categories || {mark} WHERE identity = {mark}"
        )
        self.forget: Final = (
            f"UPDATE {PUBLICATIONS} SET version = -1, start_ns = NULL, end_ns = NULL WHERE identity = {mark}"
        )
        self.retry: Final = (
            f"{_insert(mark)} WHERE s.identity = {mark} AND {_IS_NEWEST} "
            "ON CONFLICT (identity) DO UPDATE SET stream_session_id = excluded.stream_session_id, version = -1, "
            "start_ns = NULL, end_ns = NULL, pending = 1, refused = '', skipped_version = -1"
        )
        self.retry_refused: Final = f"UPDATE {PUBLICATIONS} SET refused = {mark} WHERE refused <> ''"
        self.skip: Final = (
            f"INSERT INTO {PUBLICATIONS} VALUES ({mark}, {mark}, -1, '', '', NULL, NULL, '', 0, 0, 0, 0, '', -1, '', "
            f"{mark}) ON CONFLICT (identity) DO UPDATE SET pending = 0, skipped_version = excluded.skipped_version "
            f"WHERE {PUBLICATIONS}.stream_session_id <= excluded.stream_session_id"
        )
        self.mark: Final = f"SELECT number FROM {MARKS} WHERE name = {mark}"
        self.raise_mark: Final = (
            f"INSERT INTO {MARKS} VALUES ({mark}, {mark}) ON CONFLICT (name) DO UPDATE SET "
            f"number = {greatest}({MARKS}.number, excluded.number)"
        )


def _insert(mark: str) -> str:
    """A publication of a session, of which nothing is delivered, noted at a time."""
    return (
        f"INSERT INTO {PUBLICATIONS} SELECT s.identity, s.stream_session_id, -1, '', '', NULL, NULL, '', 0, "
        f"{mark}, 0, 1, '', -1, '', -1 FROM sessions s"
    )


def _note(mark: str, which: str, changed: str) -> str:
    """Make publications pending of sessions that have none, or that are newer than theirs.

    Grouped by identity, all sessions would be read by their identities instead of a few by an index.
    """
    is_newer = f"excluded.stream_session_id > {PUBLICATIONS}.stream_session_id"
    anew = ", ".join(
        f"{column} = CASE WHEN {is_newer} THEN {blank} ELSE {PUBLICATIONS}.{column} END"
        for column, blank in (("version", "-1"), ("start_ns", "NULL"), ("end_ns", "NULL"), ("skipped_version", "-1"))
    )
    return (
        f"{_insert(mark)} LEFT JOIN {PUBLICATIONS} p ON p.identity = s.identity WHERE {which} "
        f"AND (p.identity IS NULL OR s.stream_session_id > p.stream_session_id {changed}) AND {_IS_NEWEST} "
        "ON CONFLICT (identity) DO UPDATE SET stream_session_id = excluded.stream_session_id, pending = 1, "
        f"noted_ms = excluded.noted_ms, {anew}"
    )
