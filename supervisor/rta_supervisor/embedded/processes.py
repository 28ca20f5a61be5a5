"""Processes that end with the block that started them, and waiting for one that notifies systemd of its readiness."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from rta_supervisor.embedded import process_guard

STOP_TIMEOUT_S: Final = 10
POLL_S: Final = 0.1
MESSAGE_MAX_BYTES: Final = 4096


@contextlib.contextmanager
def running(
    command: list[str], log_path: Path, environment: Mapping[str, str], *, pipe: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process in a group of its own until the block ends, or this process, however it ends.

    Standard error goes to the log, and so does standard output without `pipe`.
    """
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipe else log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,
            # Started from the main thread, before any other.
            preexec_fn=process_guard.die_with_parent(os.getpid(), signal.SIGTERM),  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()


class ReadySocket:
    """A socket for NOTIFY_SOCKET, on which a process says that it is ready, as it would to systemd."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(POLL_S)

    def wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits until the process sends READY=1 (True) or ends (False)."""
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in self._socket.recv(MESSAGE_MAX_BYTES):
                    return True
        return False

    def fileno(self) -> int:
        """For `select`: what a process says once it is ready has to be taken, or its messages fail."""
        return self._socket.fileno()

    def take(self) -> None:
        """Takes one message."""
        with contextlib.suppress(TimeoutError):
            self._socket.recv(MESSAGE_MAX_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
