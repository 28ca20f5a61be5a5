"""The catalogue as a SQLite file in WAL mode. All SQL runs in a worker thread, one call at a time."""

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import anyio.to_thread

from rta_supervisor.catalogue import sql, sqlite_schema, statements
from rta_supervisor.settings import settings
from rta_wire import errors

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 3.0
BUSY_PAUSE_S: Final = 0.02
SYSTEM_STATE: Final = Path("/var/lib/rta-supervisor")
"""Where the unit of the service keeps its state."""


def catalogue_path(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """The file to use: as configured, else in the state directory that systemd made, else in that of the user."""
    if config.catalogue.path:
        return Path(config.catalogue.path)
    if given := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(given) / _name(config)
    if given := environ.get("XDG_STATE_HOME", ""):
        return Path(given) / "rta-supervisor" / _name(config)
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:
        raise errors.BadConfiguration(
            where="catalogue.path", reason="there is no home directory for the default: name a file"
        ) from error
    return home / ".local" / "state" / "rta-supervisor" / _name(config)


def _name(config: settings.Settings) -> str:
    return f"catalogue-{deployment(config)}.sqlite"


def deployment(config: settings.Settings) -> str:
    """Tells servers and key prefixes apart, so that sessions of one are never put back into another."""
    address = config.redis.url.partition("://")[2].rpartition("@")[2]
    return hashlib.sha256(f"{address} {config.keys.prefix}".encode()).hexdigest()[:8]


_DIALECT: Final = statements.Dialect(placeholder="?", least="min", greatest="max", within="instr")

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


class SqliteCatalogue(sql.SqlCatalogue):
    """A file in WAL mode, which several supervisors on one host may share."""

    is_shared = False

    def __init__(
        self,
        path: Path,
        *,
        make_directory: bool = False,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        super().__init__(_DIALECT)
        self.path = path
        self._make_directory = make_directory
        self._read_only = read_only
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._one_at_a_time = anyio.CapacityLimiter(1)

    @classmethod
    def from_settings(cls, config: settings.Settings, environ: Mapping[str, str] = os.environ) -> "SqliteCatalogue":
        """As the settings say. Only the directory of a default path is made: another may be a mount that is away."""
        return cls(catalogue_path(config, environ), make_directory=not config.catalogue.path)

    @classmethod
    def from_settings_read_only(
        cls, config: settings.Settings, environ: Mapping[str, str] = os.environ
    ) -> "SqliteCatalogue":
        """The file of a supervisor on this host, for who only looks: the user's own, or that of the service."""
        own = catalogue_path(config, environ)
        service = SYSTEM_STATE / own.name
        is_elsewhere = not config.catalogue.path and not own.exists() and os.path.exists(service)  # noqa: PTH110 - may be hidden
        return cls(service if is_elsewhere else own, read_only=True)

    @property
    def name(self) -> str:
        return str(self.path)

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._disconnect, limiter=self._one_at_a_time)

    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.executemany(statement, rows)

        if rows:
            await self._run(write)

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._run(lambda connection: connection.execute(statement, values).fetchall())

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In the worker thread. After an error the file is opened anew, for somebody may have mended it."""

        def guarded() -> T:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return work(self._connection)
            except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
                self._disconnect()
                if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                    raise
                raise self._unavailable(_reason(error)) from error

        return await anyio.to_thread.run_sync(guarded, limiter=self._one_at_a_time)

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
        """Where nobody has it open and we may not write beside it, it can only be read as one that stays as it is."""
        try:
            self.path.stat()
            is_still = (
                not os.access(self.path.parent, os.W_OK, effective_ids=True) and not Path(f"{self.path}-wal").exists()
            )
        except OSError as error:
            reason = "there is no such file. A supervisor on this host makes one; name it in catalogue.path"
            raise self._unavailable(
                reason if isinstance(error, FileNotFoundError) else f"it can't be read: {error.strerror}"
            ) from error
        return f"file:{quote(str(self.path.absolute()))}?{'immutable=1' if is_still else 'mode=ro'}"

    def _check_readable(self, connection: sqlite3.Connection) -> None:
        if (found := self._schema(connection)) < sqlite_schema.LATEST:
            raise self._unavailable(
                f"it has schema {found}, not {sqlite_schema.LATEST}: a supervisor of this version raises it"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = self._retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        if mode != "wal":
            raise self._unavailable(f"it can't be used in WAL mode (it is in mode {mode}); put it on a local disk")
        # One fsync per flush is cheap, and an id that was given away must not come back after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        if self._schema(connection) < sqlite_schema.LATEST:
            with _transaction(connection):
                sqlite_schema.migrate(connection)

    def _schema(self, connection: sqlite3.Connection) -> int:
        found = sqlite_schema.current_version(connection)
        if found > sqlite_schema.LATEST:
            raise errors.CatalogueTooNew(path=self.name, found=found, known=sqlite_schema.LATEST)
        return found

    def _retry_while_busy(self, work: Callable[[], T]) -> T:
        """SQLite does not wait for a lock when it changes the mode of a new file, so we do."""
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
