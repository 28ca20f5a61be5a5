"""The catalogue as a PostgreSQL database that several hosts share. All SQL runs in a worker thread, one call at a time.

Every call may be repeated, so that one which finds its connection broken makes a new one. A call that takes too long is
ended by `postgres_guard`.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg

from rta_supervisor.catalogue import postgres_schema, sql_catalogue, sql_statements
from rta_supervisor.catalogue.postgres_guard import ConnectionGuard
from rta_supervisor.catalogue.postgres_schema import Connection
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import postgres_dsn
from rta_supervisor.transport import paging
from rta_wire import errors, redis_url

T = TypeVar("T")

SERVER_TIMEOUT_FACTOR: Final = 1.5
CLIENT_TIMEOUT_FACTOR: Final = 2.0
"""Times `catalogue.timeout_s`, which is how long a call waits for locks: then the server ends the call, and after that
we do."""

PAGE_ROWS: Final = 500
"""Rows that are sent at a time: the limit of time holds for each page of a large write."""

READ_ONLY: Final = "default_transaction_read_only"

_DIALECT: Final = sql_statements.Dialect(
    placeholder="%s", least="least", greatest="greatest", within="strpos", tables=postgres_schema.TABLES
)

_REASONS: Final = {
    "25006": "it is read-only",
    "28000": "the user is not let in",
    "28P01": "the password is wrong",
    "3D000": "there is no such database",
    "3F000": "its tables are gone; they are made anew",
    "42P01": "its tables are gone; they are made anew",
    "42501": "the user may not do that",
    "53100": "the disk is full",
    "53200": "the server is out of memory",
    "53300": "the server has too many connections",
    "55P03": "somebody else has locked it",
    "57014": "it took too long",
    "57P01": "the server is stopping",
    "57P02": "the server has crashed",
    "57P03": "the server is starting or stopping",
}


class PostgresCatalogue(sql_catalogue.SqlCatalogue):
    """A PostgreSQL database, with the tables in a schema of their own."""

    is_shared = True

    def __init__(self, config: settings.CatalogueSettings, *, read_only: bool = False) -> None:
        super().__init__(_DIALECT)
        self._config = config
        self._read_only = read_only
        self._connection: Connection | None = None
        self._guard: ConnectionGuard
        self._limiter = anyio.CapacityLimiter(1)
        self._parameters()  # a mistake in them is found at the start

    @property
    def name(self) -> str:
        return redis_url.redact(self._config.url)

    def reader(self) -> "PostgresCatalogue":
        return PostgresCatalogue(self._config, read_only=True)

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._disconnect, limiter=self._limiter)

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._run(lambda connection: connection.execute(statement.encode(), values).fetchall())

    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        def write(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                for page in paging.pages(rows, PAGE_ROWS):
                    cursor.executemany(statement.encode(), page)
                    self._guard.note_progress()

        if rows:
            await self._run(write)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        """Call a function with the connection, in the worker thread. After an error the next call makes a new one."""

        def run_connected() -> T:
            try:
                return self._with_reconnect(work)
            except psycopg.Error as error:
                self._disconnect()
                if isinstance(error, psycopg.OperationalError) or error.sqlstate in _REASONS:
                    raise self._unavailable(_reason(error)) from error
                raise

        return await anyio.to_thread.run_sync(run_connected, limiter=self._limiter)

    def _with_reconnect(self, work: Callable[[Connection], T]) -> T:
        """Call a function, and once more where an old connection is broken: the server may have been restarted."""
        was_connected = self._connection is not None
        try:
            with self._with_deadline(self._connected()) as connection:
                return work(connection)
        except psycopg.OperationalError:
            if not was_connected or self._connection is None or not self._connection.broken:
                raise
            self._disconnect()
        with self._with_deadline(self._connected()) as connection:
            return work(connection)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(**self._parameters(), autocommit=True, prepare_threshold=None)
        try:
            with self._with_deadline(connection):
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _parameters(self) -> dict[str, Any]:
        config = self._config
        return postgres_dsn.parameters(config.url, password_file=config.password_file, timeout_s=config.timeout_s)

    def _prepare(self, connection: Connection) -> None:
        schema = self._config.schema
        limit_ms = self._config.timeout_s * 1000
        limits = {"lock_timeout": f"{limit_ms:.0f}", "statement_timeout": f"{limit_ms * SERVER_TIMEOUT_FACTOR:.0f}"}
        postgres_schema.use(connection, schema, **limits, **({READ_ONLY: "on"} if self._read_only else {}))
        # What is committed has to survive a power cut, whatever the default of the server is.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        version = postgres_schema.current_version(connection, schema)
        if version > postgres_schema.LATEST:
            raise errors.CatalogueTooNew(path=self.name, found=version, known=postgres_schema.LATEST)
        if version == postgres_schema.LATEST and (self._read_only or postgres_schema.is_complete(connection, schema)):
            return
        if self._read_only:
            reason = f"there is no catalogue in its schema {schema!r}: a supervisor that is given the URL makes one"
            raise self._unavailable(reason)
        with connection.transaction():
            postgres_schema.migrate(connection, schema)

    @contextlib.contextmanager
    def _with_deadline(self, connection: Connection) -> Iterator[Connection]:
        """The connection, for a block that ends with an error where the server does not answer for too long."""
        limit_s = self._config.timeout_s * CLIENT_TIMEOUT_FACTOR
        self._guard = guard = ConnectionGuard(connection, limit_s)
        guard.start()
        try:
            yield connection
        except psycopg.OperationalError as error:
            if guard.was_shut_down:
                raise self._unavailable(f"it does not answer: nothing came within {limit_s:g} s") from error
            raise
        finally:
            guard.stop()
            if guard.was_shut_down:
                self._disconnect()

    def _unavailable(self, reason: str) -> errors.CatalogueUnavailable:
        return errors.CatalogueUnavailable(path=self.name, reason=reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _reason(error: psycopg.Error) -> str:
    """A phrase for common errors with the first line of the message of the server. Neither holds a secret."""
    message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    phrase = _REASONS.get(error.sqlstate or "")
    if phrase is None and "password authentication failed" in message:
        phrase = _REASONS["28P01"]
    return f"{phrase} ({message})" if phrase else message
