"""The versions of the tables of a PostgreSQL catalogue, which have a schema of their own, and the statements that lead
from each version to the next.
"""

from typing import Any, Final

import psycopg
from psycopg import sql

from rta_supervisor.catalogue import config_table, sql_statements
from rta_supervisor.catalogue.publications import statements as publication_statements

_FIRST: Final = (
    # Text is compared byte by byte, as in Python and SQLite: which of two rows wins must not depend on a locale.
    """CREATE TABLE sessions (
        identity TEXT COLLATE "C" NOT NULL, stream_session_id BIGINT NOT NULL, stream TEXT COLLATE "C" NOT NULL,
        principal TEXT COLLATE "C" NOT NULL, state TEXT COLLATE "C" NOT NULL, closed SMALLINT NOT NULL,
        version BIGINT NOT NULL, bursts BIGINT NOT NULL, samples BIGINT NOT NULL, raw_bytes BIGINT NOT NULL,
        stored_bytes BIGINT NOT NULL, start_ns BIGINT, end_ns BIGINT, opened_ms BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL, position TEXT COLLATE "C" NOT NULL, words TEXT COLLATE "C" NOT NULL,
        json TEXT COLLATE "C" NOT NULL,
        PRIMARY KEY (identity, stream_session_id)) WITH (fillfactor = 80)""",
    "CREATE INDEX sessions_by_id ON sessions (stream_session_id, identity)",
    "CREATE INDEX sessions_unfinished ON sessions (stream_session_id) WHERE closed = 0",
    """CREATE TABLE places (
        stream TEXT COLLATE "C" NOT NULL, stream_session_id BIGINT NOT NULL, kind TEXT COLLATE "C" NOT NULL,
        location TEXT NOT NULL, first_id TEXT NOT NULL, last_id TEXT NOT NULL, entries BIGINT NOT NULL,
        size_bytes BIGINT NOT NULL, noted_ms BIGINT NOT NULL, PRIMARY KEY (stream, stream_session_id, kind))""",
)
_EXTERNAL_IDS: Final = f"""CREATE TABLE IF NOT EXISTS {sql_statements.EXTERNAL_IDS} (
    external_id TEXT COLLATE "C" NOT NULL, principal TEXT COLLATE "C" NOT NULL, identity TEXT COLLATE "C" NOT NULL,
    stream_session_id BIGINT NOT NULL, PRIMARY KEY (external_id, stream_session_id, identity))"""
_STEPS: Final = (_FIRST,)
LATEST: Final = len(_STEPS)

TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"

Connection = psycopg.Connection[tuple[Any, ...]]


def use(connection: Connection, schema: str, **settings: str) -> None:
    """Make a schema the only one in which tables are found by name. `settings`: further settings of the connection."""
    connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", (schema,))
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def current_version(connection: Connection, schema: str) -> int:
    """The version of the tables in a schema, 0 where there are none."""
    [has_version] = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')", (schema,)
    ).fetchall()
    if not has_version[0]:
        return 0
    [(number,)] = connection.execute("SELECT number FROM version").fetchall()
    return int(number)


def is_complete(connection: Connection, schema: str) -> bool:
    """Whether a schema has the latest version, and the tables and indexes that are no part of a version."""
    tables = connection.execute(TABLES).fetchall()
    additions = {(sql_statements.EXTERNAL_IDS,), (config_table.TABLE,), (config_table.VERSION_TABLE,)}
    indexes = connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = %s", (schema,)).fetchall()
    additions.add((publication_statements.PUBLICATIONS,))
    by_publications = (publication_statements.CLOSED_INDEX, publication_statements.REFUSED_INDEX)
    indexed = {(sql_statements.BY_PRINCIPAL,), *((name,) for name in by_publications)}
    has_additions = additions <= set(tables) and indexed <= set(indexes)
    return current_version(connection, schema) == LATEST and has_additions


def migrate(connection: Connection, schema: str) -> None:
    """Bring a schema to the latest version. To be called in a transaction: of several hosts that do so at once, one
    migrates, and the others wait and find it done.

    Older supervisors use the schema too, and refuse a newer version: a table that they do not know is no part of it.
    """
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('rta-supervisor'), hashtext(%s))", (schema,))
    has_schema = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if has_schema is None:
        # Only where it is missing: an operator who created it need not grant us the right to create schemas.
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    version = current_version(connection, schema)
    for step in _STEPS[version:]:
        for statement in step:
            connection.execute(statement)
    if version == 0:
        connection.execute("CREATE TABLE version (number INTEGER NOT NULL)")
        connection.execute("INSERT INTO version VALUES (%s)", (LATEST,))
    else:
        connection.execute("UPDATE version SET number = %s", (LATEST,))
    connection.execute(_EXTERNAL_IDS)
    connection.execute(sql_statements.CREATE_BY_PRINCIPAL)
    for statement in publication_statements.create("postgres"):
        connection.execute(statement)
    for statement in config_table.create(text='TEXT COLLATE "C"', integer="BIGINT", blob="BYTEA"):
        connection.execute(statement)
