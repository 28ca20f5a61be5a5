"""The catalogue as a PostgreSQL that several hosts share. All SQL runs in a worker thread, one call at a time.

Every call may be repeated, so one that finds its connection broken makes another. One that takes too long is cut off by
us: a server that stands still would let us wait for ever.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import psycopg

from rta_supervisor.catalogue import postgres_schema, sql, statements
from rta_supervisor.catalogue.postgres_schema import Connection
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import postgres_dsn
from rta_supervisor.transport import paging
from rta_wire import errors, redis_url

T = TypeVar("T")

SERVER_TIMEOUT_FACTOR: Final = 1.5
CLIENT_TIMEOUT_FACTOR: Final = 2.0
"""Times `catalogue.timeout_s`, for which it waits for locks: then the server ends a call, and after that we do."""

PAGE: Final = 500
"""Rows that are sent at a time: each page of a large write may take as long as a small one."""

READ_ONLY: Final = "default_transaction_read_only"

_DIALECT: Final = statements.Dialect(placeholder="%s", least="least", greatest="greatest", within="strpos")

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


class PostgresCatalogue(sql.SqlCatalogue):
    """Tables in a schema of their own."""

    is_shared = True

    def __init__(self, config: settings.CatalogueSettings, *, read_only: bool = False) -> None:
        super().__init__(_DIALECT)
        self._config = config
        self._read_only = read_only
        self._connection: Connection | None = None
        self._watchdog: _ConnectionGuard
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._parameters()

    @property
    def name(self) -> str:
        return redis_url.redact(self._config.url)

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._disconnect, limiter=self._one_at_a_time)

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._run(lambda connection: connection.execute(statement.encode(), values).fetchall())

    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        def write(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                for page in paging.pages(rows, PAGE):
                    cursor.executemany(statement.encode(), page)
                    self._watchdog.step()

        if rows:
            await self._run(write)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        """In the worker thread. After an error the connection is made anew."""

        def guarded() -> T:
            try:
                return self._with_reconnect(work)
            except psycopg.Error as error:
                self._disconnect()
                if isinstance(error, psycopg.OperationalError) or error.sqlstate in _REASONS:
                    raise self._unavailable(_reason(error)) from error
                raise

        return await anyio.to_thread.run_sync(guarded, limiter=self._one_at_a_time)

    def _with_reconnect(self, work: Callable[[Connection], T]) -> T:
        """The server may have been started anew since the last call: nobody has to hear of that."""
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
        # What is committed must be there after a power cut, whatever the server does for others.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        found = postgres_schema.current_version(connection, schema)
        if found > postgres_schema.LATEST:
            raise errors.CatalogueTooNew(path=self.name, found=found, known=postgres_schema.LATEST)
        if found == postgres_schema.LATEST:
            return
        if self._read_only:
            reason = f"there is no catalogue in its schema {schema!r}: a supervisor that is given the URL makes one"
            raise self._unavailable(reason)
        with connection.transaction():
            postgres_schema.migrate(connection, schema)

    @contextlib.contextmanager
    def _with_deadline(self, connection: Connection) -> Iterator[Connection]:
        """For the length of the block, which ends in an error where the server says nothing for too long."""
        limit_s = self._config.timeout_s * CLIENT_TIMEOUT_FACTOR
        self._watchdog = line = _ConnectionGuard(connection, limit_s)
        watch = threading.Thread(target=line.watch, name="catalogue-line", daemon=True)
        watch.start()
        try:
            yield connection
        except psycopg.OperationalError as error:
            if line.was_cut:
                raise self._unavailable(f"it does not answer: nothing came within {limit_s:g} s") from error
            raise
        finally:
            line.end()
            watch.join()
            if line.was_cut:
                self._disconnect()

    def _unavailable(self, reason: str) -> errors.CatalogueUnavailable:
        return errors.CatalogueUnavailable(path=self.name, reason=reason)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _ConnectionGuard:
    """The socket of a connection, to be cut from another thread than the one that waits on it."""

    def __init__(self, connection: Connection, limit_s: float) -> None:
        self._connection = connection
        self._limit_s = limit_s
        self._is_over = threading.Event()
        self._has_moved = True
        self.was_cut = False

    def step(self) -> None:
        """The server has answered, and there is more to do."""
        self._has_moved = True

    def end(self) -> None:
        self._is_over.set()

    def watch(self) -> None:
        """Until the end, or until nothing has come for too long: then who waits for an answer gets an end of file."""
        while self._has_moved:
            self._has_moved = False
            if self._is_over.wait(self._limit_s):
                return
        self.was_cut = True
        with (
            contextlib.suppress(psycopg.OperationalError, OSError),  # it is closed by now
            socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


def _reason(error: psycopg.Error) -> str:
    """A name for what people meet, else the first line of what the server said. No secret is in either."""
    said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    named = _REASONS.get(error.sqlstate or "")
    if named is None and "password authentication failed" in said:
        named = _REASONS["28P01"]
    return f"{named} ({said})" if named else said
