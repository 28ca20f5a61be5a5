"""The other end of a service's talk with systemd, played by us or by a real manager in namespaces of its own."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from tests.support.waiting import wait_until

MESSAGE_MAX_BYTES = 4096
MANAGER = Path("/lib/systemd/systemd")


class Listener:
    """A NOTIFY_SOCKET that keeps every message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[dict[str, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.1)
        self._is_over = False
        self._thread = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        while not self._is_over:
            with contextlib.suppress(TimeoutError):
                text = self._socket.recv(MESSAGE_MAX_BYTES).decode()
                self.messages.append(dict(line.split("=", 1) for line in text.splitlines()))

    def wait_for(self, condition: Callable[[dict[str, str]], bool], what: str, timeout_s: float = 30) -> dict[str, str]:
        return (
            wait_until(
                lambda: next((message for message in self.messages if condition(message)), None),
                timeout_s=timeout_s,
                what=what,
            )
            or {}
        )

    def values(self, name: str) -> list[str]:
        return [message[name] for message in self.messages if name in message]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._socket.close()


@contextlib.contextmanager
def process(environment: dict[str, str], log_path: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon that ends with the block."""
    with log_path.open("wb") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "rta_supervisor", "run", *options],
            env={**os.environ, "XDG_STATE_HOME": str(log_path.parent), **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield daemon
    finally:
        daemon.kill()
        daemon.wait()
        print(log_path.read_text())


def why_no_manager() -> str:
    """Why a real manager can't be tried here; empty: it can."""
    if os.geteuid() != 0:
        return "namespaces of its own for a systemd manager need root"
    if not MANAGER.exists() or shutil.which("unshare") is None:
        return "systemd is not installed"
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        return "this host allows no namespaces"
    return "" if Path("/sys/fs/cgroup").is_dir() else "there are no control groups"


NAMESPACES: Sequence[str] = ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
