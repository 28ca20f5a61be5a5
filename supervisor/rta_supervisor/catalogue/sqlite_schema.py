"""The versions of the schema of a SQLite catalogue, and the statements that lead from each to the next."""

import sqlite3
from typing import Final

from rta_supervisor.catalogue import config_table, search_text, sql_statements
from rta_supervisor.catalogue.publications import statements as publication_statements

_FIRST: Final = (
    """CREATE TABLE sessions (
        identity TEXT NOT NULL, stream_session_id INTEGER NOT NULL, stream TEXT NOT NULL, principal TEXT NOT NULL,
        state TEXT NOT NULL, closed INTEGER NOT NULL, json TEXT NOT NULL, version INTEGER NOT NULL,
        bursts INTEGER NOT NULL, samples INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL,
        start_ns INTEGER, end_ns INTEGER, opened_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
        PRIMARY KEY (identity, stream_session_id))""",
    "CREATE INDEX sessions_by_id ON sessions (stream_session_id)",
    "CREATE INDEX sessions_unfinished ON sessions (stream_session_id) WHERE closed = 0",
)
_SECOND: Final = (
    "ALTER TABLE sessions ADD COLUMN position TEXT NOT NULL DEFAULT '0-0'",
    "ALTER TABLE sessions ADD COLUMN words TEXT NOT NULL DEFAULT ''",
    "UPDATE sessions SET words = words_of(identity, json)",
    "DROP INDEX sessions_by_id",
    # It has every column that a search compares: a search reads no row that it does not return.
    """CREATE INDEX sessions_by_id ON sessions
        (stream_session_id, identity, state, stream, start_ns, end_ns, opened_ms, words)""",
    """CREATE TABLE places (
        stream TEXT NOT NULL, stream_session_id INTEGER NOT NULL, kind TEXT NOT NULL, location TEXT NOT NULL,
        first_id TEXT NOT NULL, last_id TEXT NOT NULL, entries INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
        noted_ms INTEGER NOT NULL, PRIMARY KEY (stream, stream_session_id, kind)) WITHOUT ROWID""",
)
_EXTERNAL_IDS: Final = f"""CREATE TABLE IF NOT EXISTS {sql_statements.EXTERNAL_IDS} (
    external_id TEXT NOT NULL, principal TEXT NOT NULL, identity TEXT NOT NULL, stream_session_id INTEGER NOT NULL,
    PRIMARY KEY (external_id, stream_session_id, identity)) WITHOUT ROWID"""
_STEPS: Final = (_FIRST, _SECOND)
LATEST: Final = len(_STEPS)


def current_version(connection: sqlite3.Connection) -> int:
    """The version of the schema of a file, 0 for a new file."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the latest version. To be called in a transaction: another process may do the same at once."""
    connection.create_function("words_of", 2, search_text.search_text, deterministic=True)
    for step in _STEPS[current_version(connection) :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {LATEST}")


def add_tables(connection: sqlite3.Connection) -> None:
    """Create what is no part of a version: older supervisors use the file too, and refuse a newer version."""
    connection.execute(_EXTERNAL_IDS)
    connection.execute(sql_statements.CREATE_BY_PRINCIPAL)
    for statement in publication_statements.create("sqlite"):
        connection.execute(statement)
    *tables, version = config_table.create(text="TEXT", integer="INTEGER", blob="BLOB")
    for statement in tables:
        connection.execute(statement)
    # Only where it is missing: an INSERT that changes nothing waits for whoever writes, and a reader need not.
    if connection.execute(f"SELECT 1 FROM {config_table.VERSION_TABLE}").fetchone() is None:  # noqa: S608
        connection.execute(version)
