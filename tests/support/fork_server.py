"""Programs in Python as forks of a process that has loaded what they need, so that a start costs little.

A fork is a process like any other, with its own environment, log and end. Only /proc shows the command line and the
environment of the fork server instead of its own: a test that reads them there starts a fresh interpreter.
"""

import atexit
import contextlib
import functools
import importlib
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
ORDER_MAX_BYTES: Final = 200_000
ANSWER_MAX_BYTES: Final = 32

LOADED: Final = (
    *("rta_supervisor.cli.entry", "rta_supervisor.runtime.daemon", "rta_supervisor.catalogue.postgres"),
    *("anyio._backends._asyncio", "uvicorn.lifespan.off", "uvicorn.protocols.http.h11_impl"),
)
"""What a supervisor imports, some of it only when it runs."""

_turn = threading.Lock()


class Order(msgspec.Struct, frozen=True):
    """What a fork is to run."""

    module: str
    words: list[str]
    environment: dict[str, str]
    folder: str


class Fork:
    """What a test needs of `subprocess.Popen`."""

    def __init__(self, module: str, words: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> None:
        self.returncode: int | None = None
        order = Order(module, list(words), dict(environment), str(Path.cwd()))
        self._end, end = os.pipe()
        with _turn:
            connection = _connection()
            socket.send_fds(connection, [msgspec.msgpack.encode(order)], [log.fileno(), end])
            os.close(end)
            self.pid = int(connection.recv(ANSWER_MAX_BYTES))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0)
            self.returncode = int(os.read(self._end, ANSWER_MAX_BYTES))
            os.close(self._end)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _connection() -> socket.socket:
    """A connection to the fork server of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def leave() -> None:
        ours.close()
        process.wait()

    atexit.register(leave)
    return ours


class ForkServer:
    """Forks a process for each order, and reports how each process ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._living: dict[int, tuple[int, int]] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ)

    def serve(self) -> Order | None:
        """Returns in a fork: the order that it has to run. Returns None in the server once the connection is closed."""
        while True:
            for ready, _ in self._selector.select():
                if ready.fd != self._orders.fileno():
                    self._bury(ready.fd)
                    continue
                raw, descriptors, _, _ = socket.recv_fds(self._orders, ORDER_MAX_BYTES, 2)
                if not raw:
                    return None
                if not self._fork(*descriptors):
                    return msgspec.msgpack.decode(raw, type=Order)

    def _fork(self, log: int, end: int) -> int:
        pid = os.fork()
        if pid:
            os.close(log)
            watched = os.pidfd_open(pid)
            self._living[watched] = (pid, end)
            self._selector.register(watched, selectors.EVENT_READ)
            self._orders.send(str(pid).encode())
            return pid
        self._selector.close()
        self._orders.close()
        for watched, (_, other_end) in self._living.items():
            os.close(watched)
            os.close(other_end)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.close(end)
        return 0

    def _bury(self, watched: int) -> None:
        self._selector.unregister(watched)
        pid, end = self._living.pop(watched)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(watched)
        os.close(end)


def main() -> None:
    for module in LOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    if order is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv = [order.module, *order.words]
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
