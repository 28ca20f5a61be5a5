"""The catalogue as a SQLite file in WAL mode. All SQL runs in a worker thread, one call at a time.

Where the file is, is decided in `sqlite_path`.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread

from rta_supervisor.catalogue import sql_catalogue, sql_statements, sqlite_schema
from rta_wire import errors

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 3.0
BUSY_PAUSE_S: Final = 0.02

_DIALECT: Final = sql_statements.Dialect(
    placeholder="?", least="min", greatest="max", within="instr", tables="SELECT name FROM sqlite_master"
)

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


class SqliteCatalogue(sql_catalogue.SqlCatalogue):
    """A SQLite file, which several supervisors on one host may share."""

    is_shared = False

    def __init__(
        self,
        path: Path,
        *,
        make_directory: bool = False,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        """`make_directory`: whether a directory that is missing is created. `read_only`: nothing is created."""
        super().__init__(_DIALECT)
        self.path = path
        self._make_directory = make_directory
        self._read_only = read_only
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._limiter = anyio.CapacityLimiter(1)

    @property
    def name(self) -> str:
        return str(self.path)

    def reader(self) -> "SqliteCatalogue":
        return SqliteCatalogue(self.path, read_only=True, busy_timeout_s=self._busy_timeout_s)

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._disconnect, limiter=self._limiter)

    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(statement, rows)

        if rows:
            await self._run(write)

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._run(lambda connection: connection.execute(statement, values).fetchall())

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with the connection in the worker thread.

        After an error the file is opened again by the next call: somebody may have repaired it.
        """

        def run_connected() -> T:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return work(self._connection)
            except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
                self._disconnect()
                if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                    raise
                raise self._unavailable(_reason(error)) from error

        return await anyio.to_thread.run_sync(run_connected, limiter=self._limiter)

    def _connect(self) -> sqlite3.Connection:
        if self._make_directory:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise self._unavailable(f"its directory can't be made: {error.strerror}") from error
        connection = sqlite3.connect(
            *(self._uri() if self._read_only else self.path, self._busy_timeout_s),
            isolation_level=None,
            check_same_thread=False,
            uri=self._read_only,
        )
        try:
            if self._read_only:
                self._check_readable(connection)
            else:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _uri(self) -> str:
        """The URI of a file that is only read.

        Reading in WAL mode creates files beside it. Where we may not, and no process has the file open, SQLite reads it
        as a file that does not change.
        """
        try:
            self.path.stat()
            is_immutable = (
                not os.access(self.path.parent, os.W_OK, effective_ids=True) and not Path(f"{self.path}-wal").exists()
            )
        except OSError as error:
            reason = "there is no such file. A supervisor on this host makes one; name it in catalogue.path"
            raise self._unavailable(
                reason if isinstance(error, FileNotFoundError) else f"it can't be read: {error.strerror}"
            ) from error
        return f"file:{quote(str(self.path.absolute()))}?{'immutable=1' if is_immutable else 'mode=ro'}"

    def _check_readable(self, connection: sqlite3.Connection) -> None:
        if (version := self._schema_version(connection)) < sqlite_schema.LATEST:
            raise self._unavailable(
                f"it has schema {version}, not {sqlite_schema.LATEST}: a supervisor of this version raises it"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = self._retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        if mode != "wal":
            raise self._unavailable(f"it can't be used in WAL mode (it is in mode {mode}); put it on a local disk")
        # One fsync per flush is cheap, and an id that was given away must not come back after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        if self._schema_version(connection) < sqlite_schema.LATEST:
            with _transaction(connection):
                sqlite_schema.migrate(connection)
        sqlite_schema.add_tables(connection)

    def _schema_version(self, connection: sqlite3.Connection) -> int:
        """The version of the schema. Raises `CatalogueTooNew` where this program does not know it."""
        version = sqlite_schema.current_version(connection)
        if version > sqlite_schema.LATEST:
            raise errors.CatalogueTooNew(path=self.name, found=version, known=sqlite_schema.LATEST)
        return version

    def _retry_while_busy(self, work: Callable[[], T]) -> T:
        """Repeat a call while the file is locked: SQLite does not wait when it changes the mode of a new file."""
        deadline_s = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline_s:
                    raise
                time.sleep(BUSY_PAUSE_S)

    def _unavailable(self, reason: str) -> errors.CatalogueUnavailable:
        return errors.CatalogueUnavailable(path=self.name, reason=reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block is committed, or nothing."""
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
    """The primary error code, without the details that SQLite keeps in the higher bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _reason(error: sqlite3.Error) -> str:
    return _REASONS.get(_code(error), str(error))
