"""A TCP proxy in front of a server that can lose a reply: what was asked is done, and the asker never hears of it.

And it can hold everything back, as a server does that is stuck, or forget connections, as a firewall does.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Forwards to one server; `swallow` tells how many of the next replies are lost, connection and all."""

    def __init__(self, target: str) -> None:
        """`target`: the path of a unix socket, or `host:port`."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._swallow_after: bytes | None = None
        self._flowing = threading.Event()
        self._flowing.set()
        self._connections: list[threading.Event] = []
        self.swallowed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def swallow_reply_to(self, word: bytes) -> None:
        """Lose the reply to the next request that holds `word`."""
        with self._lock:
            self._swallow_after = word

    def hold(self) -> None:
        """Pass nothing on until `release`."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def forget_connections(self) -> None:
        """Take what comes over the connections that there are, pass nothing on, and tell neither end."""
        for forgotten in self._connections:
            forgotten.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = self._connect()
            doomed, forgotten = threading.Event(), threading.Event()
            self._connections.append(forgotten)
            threading.Thread(target=self._forward, args=(near, far, doomed, forgotten), daemon=True).start()
            threading.Thread(target=self._answer, args=(far, near, doomed), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, _, port = self._target.rpartition(":")
        if host:
            return socket.create_connection((host, int(port)))
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._target)
        return far

    def _forward(
        self, near: socket.socket, far: socket.socket, doomed: threading.Event, forgotten: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                if forgotten.is_set():
                    continue
                with self._lock:
                    if self._swallow_after is not None and self._swallow_after in data:
                        self._swallow_after = None
                        doomed.set()
                self._flowing.wait()
                far.sendall(data)
        _hang_up(near, far)

    def _answer(self, far: socket.socket, near: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(1 << 16):
                if doomed.is_set():
                    self.swallowed += 1
                    break
                near.sendall(data)
        _hang_up(near, far)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextlib.contextmanager
def between(target: str) -> Iterator[Proxy]:
    """A proxy to `target` for the length of a block."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
