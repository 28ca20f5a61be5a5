"""A real PostgreSQL of the programs on this machine: on a unix socket and a loopback port, with a schema for each test.

PostgreSQL refuses to run as root: there it runs as nobody.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from rta_supervisor.embedded.server import free_port
from rta_supervisor.settings import settings
from tests.support.waiting import wait_until

NOBODY = "nobody"
USER = "postgres"
GUARDED = "guarded"
"""A user that has to show a password, and may do nothing."""
PASSWORD = "rosebud/1"  # noqa: S105 - of a server that lives for one test run
RULES = f"local all all trust\nhost all {GUARDED} all scram-sha-256\nhost all all all trust\n"
FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=64MB", "max_connections=40")


def programs() -> Path | None:
    """Where initdb and postgres are, the newest version first."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    on_path = [Path(found).parent] if (found := shutil.which("initdb")) else []
    return next((path for path in (*installed, *on_path) if (path / "initdb").exists()), None)


class Server:
    """One server, with its data in a directory that goes with it."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._numbers = itertools.count(1)
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-pg-"))
        self.port = free_port()
        if os.geteuid() == 0:
            shutil.chown(self.directory, NOBODY)
        options = ("--auth=trust", "--no-sync", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8")
        self._run("initdb", *options, "-D", str(self.directory / "data"))
        (self.directory / "data" / "pg_hba.conf").write_text(RULES)
        self.start()
        self.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@/postgres?host={self.directory}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        """The same over TCP, where a proxy can stand in between."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        words = ["-D", str(self.directory / "data"), "-k", str(self.directory), "-p", str(self.port)]
        words += [word for option in (*FAST, "listen_addresses=127.0.0.1") for word in ("-c", option)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self._binaries / "postgres"), *words],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                user=self._user,
                # Only the locale of what it says: the test looks for words.
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            )
        wait_until(self._answers, what="PostgreSQL")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: clients are cut off. SIGQUIT: as if it had crashed."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Nobody answers, and every connection stays as it is."""
        pids = [self.process.pid, *_children(self.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    @contextlib.contextmanager
    def schema(self) -> Iterator[settings.CatalogueSettings]:
        """Settings of a catalogue that nobody else has."""
        name = f"t{next(self._numbers)}"
        yield settings.CatalogueSettings(url=self.url, schema=name)
        self.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    @property
    def _user(self) -> str | None:
        return NOBODY if os.geteuid() == 0 else None

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.directory / "log").read_text()
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._binaries / program), *words],
            capture_output=True,
            text=True,
            user=self._user,
            cwd=self.directory,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def environment(config: settings.CatalogueSettings) -> dict[str, str]:
    """The same settings for a process."""
    given = msgspec.to_builtins(config)
    return {f"RTA_CATALOGUE__{name.upper()}": str(given[name]) for name in ("path", "url", "schema", "timeout_s")}


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def empty(config: settings.CatalogueSettings) -> None:
    """Takes all rows out of a catalogue that may not be there."""
    with psycopg.connect(config.url, autocommit=True) as connection:
        for table in ("sessions", "places"):
            if connection.execute("SELECT to_regclass(%s)", (f"{config.schema}.{table}",)).fetchone() != (None,):
                connection.execute(f"TRUNCATE {config.schema}.{table}".encode())


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server, or a skipped test where there are no programs."""
    binaries = programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: no initdb in /usr/lib/postgresql/*/bin or on the PATH")
    server = Server(binaries)
    try:
        yield server
    finally:
        server.close()
