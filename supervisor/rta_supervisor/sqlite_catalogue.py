"""The catalogue as a SQLite file in WAL mode. All SQL runs in a worker thread, one call at a time."""

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from rta_supervisor import settings
from rta_supervisor.catalogue import Place, Progress, Row
from rta_wire import errors
from rta_wire.session import State
from rta_wire.totals import Totals

T = TypeVar("T")

SCHEMA: Final = 1
BUSY_TIMEOUT_S: Final = 3.0
BUSY_PAUSE_S: Final = 0.02
INT64_MAX: Final = 2**63 - 1


def place(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """The file to use: as configured, else in the state directory that systemd made, else in that of the user."""
    if config.catalogue.path:
        return Path(config.catalogue.path)
    name = f"catalogue-{deployment(config)}.sqlite"
    if given := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given) / name
    if given := environ.get("XDG_STATE_HOME", ""):
        return Path(given) / "rta-supervisor" / name
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:
        raise errors.BadConfiguration(
            where="catalogue.path", reason="there is no home directory for the default: name a file"
        ) from error
    return home / ".local" / "state" / "rta-supervisor" / name


def deployment(config: settings.Settings) -> str:
    """Tells servers and key prefixes apart, so that sessions of one are never put back into another."""
    address = config.redis.url.partition("://")[2].rpartition("@")[2]
    return hashlib.sha256(f"{address} {config.keys.prefix}".encode()).hexdigest()[:8]


_CREATE: Final = (
    """CREATE TABLE sessions (
        identity TEXT NOT NULL, stream_session_id INTEGER NOT NULL, stream TEXT NOT NULL, principal TEXT NOT NULL,
        state TEXT NOT NULL, closed INTEGER NOT NULL, json TEXT NOT NULL, version INTEGER NOT NULL,
        bursts INTEGER NOT NULL, samples INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL,
        start_ns INTEGER, end_ns INTEGER, opened_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
        PRIMARY KEY (identity, stream_session_id))""",
    "CREATE INDEX sessions_by_id ON sessions (stream_session_id)",
    "CREATE INDEX sessions_unfinished ON sessions (stream_session_id) WHERE closed = 0",
    f"PRAGMA user_version = {SCHEMA}",
)

_CREATE_PLACES: Final = """CREATE TABLE IF NOT EXISTS places (
    stream TEXT NOT NULL, stream_session_id INTEGER NOT NULL, kind TEXT NOT NULL, location TEXT NOT NULL,
    first_id TEXT NOT NULL, last_id TEXT NOT NULL, entries INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    noted_ms INTEGER NOT NULL, PRIMARY KEY (stream, stream_session_id, kind))"""

_COLUMNS: Final = (
    *("identity", "stream_session_id", "stream", "principal", "state", "closed", "json", "version"),
    *("bursts", "samples", "raw_bytes", "stored_bytes", "start_ns", "end_ns", "opened_ms", "updated_ms"),
)
_RANK: Final = ("closed", "version", "state", "json", "stream", "principal")
_WON: Final = f"({', '.join(f'excluded.{c}' for c in _RANK)}) > ({', '.join(f'sessions.{c}' for c in _RANK)})"


def _either(choose: str, column: str) -> str:
    """The lower or higher of two, or the one that is not NULL."""
    old, new = f"sessions.{column}", f"excluded.{column}"
    return f"{column} = {choose}(coalesce({old}, {new}), coalesce({new}, {old}))"


_EITHER: Final = (
    _either("min", "start_ns"),
    *(_either("max", c) for c in ("bursts", "samples", "raw_bytes", "stored_bytes", "end_ns", "updated_ms")),
)
_SETS: Final = (
    *(
        f"{c} = CASE WHEN {_WON} THEN excluded.{c} ELSE sessions.{c} END"
        for c in ("stream", "principal", "state", "closed", "json", "version")
    ),
    _either("min", "opened_ms"),
    *_EITHER,
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM sessions"  # noqa: S608 - made of constants
_UPSERT: Final = (
    f"INSERT INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "  # noqa: S608 - as above
    f"ON CONFLICT (identity, stream_session_id) DO UPDATE SET {', '.join(_SETS)}"
)
"""The same as Row.joined, where the rows are."""

_TOTALS: Final = ("bursts", "samples", "raw_bytes", "stored_bytes", "start_ns", "end_ns")
_NEW_TOTALS: Final = ", ".join(f"CAST(nullif(?, x'2d') AS INTEGER) AS {name}" for name in _TOTALS)
_PROGRESS: Final = (
    f"WITH excluded AS (SELECT ? AS identity, ? AS number, {_NEW_TOTALS}, ? AS updated_ms) "  # noqa: S608 - constants
    f"UPDATE sessions SET {', '.join(_EITHER)} FROM excluded "
    "WHERE sessions.identity = excluded.identity AND sessions.stream_session_id = excluded.number"
)
"""Takes the words of Redis as they are: a dash is no number, and one that is too large becomes the largest."""

_REASONS: Final = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "another process has locked it",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_NOTADB: "the file is not a catalogue. Move it away, or name another one",
    sqlite3.SQLITE_CORRUPT: "the file is damaged. Move it away, or put a backup in its place",
    sqlite3.SQLITE_CANTOPEN: "the file can't be opened; the directory must exist and be writable",
    sqlite3.SQLITE_PERM: "the file may not be used by this user",
}


class SqliteCatalogue:
    """A file in WAL mode, which several supervisors on one host may share."""

    def __init__(self, path: Path, *, make_directory: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._make_directory = make_directory
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._one_at_a_time = anyio.CapacityLimiter(1)

    @classmethod
    def configured(cls, config: settings.Settings, environ: Mapping[str, str] = os.environ) -> "SqliteCatalogue":
        """As the settings say. Only the directory of a default path is made: another may be a mount that is away."""
        return cls(place(config, environ), make_directory=not config.catalogue.path)

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def save(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        values = [_values(row) for row in rows]

        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(_UPSERT, values)

        await self._run(write)

    async def save_progress(self, progress: Sequence[Progress], *, at_ms: int) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(
                    _PROGRESS, ((identity, number, *totals, at_ms) for identity, number, totals in progress)
                )

        if progress:
            await self._run(write)

    async def get(self, identity: str) -> Row | None:
        found = await self._select("WHERE identity = ? ORDER BY stream_session_id DESC LIMIT 1", identity)
        return found[0] if found else None

    async def get_all(self, identities: Sequence[str]) -> list[Row]:
        marks = ", ".join("?" * len(identities))
        found = await self._select(f"WHERE identity IN ({marks}) ORDER BY stream_session_id", *identities)
        return list({row.identity: row for row in found}.values())

    async def unfinished(self) -> list[Row]:
        return await self._select("WHERE closed = 0 ORDER BY stream_session_id")

    async def latest(self, count: int) -> list[str]:
        statement = "SELECT identity FROM sessions ORDER BY stream_session_id DESC LIMIT ?"
        return await self._run(lambda connection: [found for (found,) in connection.execute(statement, (count,))])

    async def highest_id(self) -> int:
        def read(connection: sqlite3.Connection) -> int:
            found: int | None = connection.execute("SELECT max(stream_session_id) FROM sessions").fetchone()[0]
            return found or 0

        return await self._run(read)

    async def save_places(self, places: Sequence[Place]) -> None:
        columns = Place.__struct_fields__
        statement = (
            f"INSERT OR REPLACE INTO places ({', '.join(columns)}) "  # noqa: S608 - made of constants
            f"VALUES ({', '.join('?' * len(columns))})"
        )
        values = [msgspec.structs.astuple(place) for place in places]

        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(statement, values)

        if places:
            await self._run(write)

    async def drop_places(self, places: Sequence[Place]) -> None:
        statement = "DELETE FROM places WHERE stream = ? AND stream_session_id = ? AND kind = ?"
        values = [(place.stream, place.stream_session_id, place.kind) for place in places]

        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(statement, values)

        if places:
            await self._run(write)

    async def places(self, stream: str) -> list[Place]:
        columns = ", ".join(Place.__struct_fields__)
        statement = f"SELECT {columns} FROM places WHERE stream = ? ORDER BY stream_session_id, kind"  # noqa: S608 - as above
        return await self._run(lambda connection: [Place(*found) for found in connection.execute(statement, (stream,))])

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._forget, limiter=self._one_at_a_time)

    async def _select(self, where: str, *values: str) -> list[Row]:
        return await self._run(
            lambda connection: [_row(found) for found in connection.execute(f"{_SELECT} {where}", values)]
        )

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In the worker thread. After an error the file is opened anew, for somebody may have mended it."""

        def guarded() -> T:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return work(self._connection)
            except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
                self._forget()
                if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                    raise
                raise errors.CatalogueUnavailable(path=str(self.path), reason=_reason(error)) from error

        return await anyio.to_thread.run_sync(guarded, limiter=self._one_at_a_time)

    def _connect(self) -> sqlite3.Connection:
        if self._make_directory:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                reason = f"its directory can't be made: {error.strerror}"
                raise errors.CatalogueUnavailable(path=str(self.path), reason=reason) from error
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        if mode != "wal":
            reason = f"it can't be used in WAL mode (it is in mode {mode}); put it on a local disk"
            raise errors.CatalogueUnavailable(path=str(self.path), reason=reason)
        # One fsync per flush is cheap, and an id that was given away must not come back after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        if self._schema(connection) == 0:
            with _transaction(connection):
                # Another process may have been faster.
                for statement in _CREATE if self._schema(connection) == 0 else ():
                    connection.execute(statement)
        connection.execute(_CREATE_PLACES)

    def _schema(self, connection: sqlite3.Connection) -> int:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA:
            raise errors.CatalogueTooNew(path=str(self.path), found=found, known=SCHEMA)
        return found

    def _patiently(self, work: Callable[[], T]) -> T:
        """SQLite does not wait for a lock when it changes the mode of a new file, so we do."""
        deadline_s = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                    raise
                time.sleep(BUSY_PAUSE_S)

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has rolled it back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _code(error: sqlite3.Error) -> int:
    """The primary one: SQLite keeps details in the higher bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _reason(error: sqlite3.Error) -> str:
    return _REASONS.get(_code(error), str(error))


def _values(row: Row) -> tuple[Any, ...]:
    return (
        *(row.identity, row.stream_session_id, row.stream, row.principal, row.state.value),
        *(int(row.state.is_closed), row.json, row.version),
        *_numbers(row.totals).values(),
        *(row.opened_ms, row.updated_ms),
    )


def _numbers(totals: Totals) -> dict[str, int | None]:
    """A count that a writer made up must not keep every other row from being saved."""
    numbers = msgspec.structs.asdict(totals)
    return {name: None if number is None else min(number, INT64_MAX) for name, number in numbers.items()}


def _row(found: tuple[Any, ...]) -> Row:
    identity, number, stream, principal, state, _, json, version, *rest = found
    *totals, opened_ms, updated_ms = rest
    return Row(identity, stream, number, principal, State(state), json, Totals(*totals), version, opened_ms, updated_ms)
