"""A proxy that writes down which commands go through it, and a listener for those that scripts run."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator

import hiredis

CONTAINERS = ("ACL", "CLIENT", "CLUSTER", "CONFIG", "FUNCTION", "MEMORY", "OBJECT", "XGROUP", "XINFO")
"""Commands whose second word says which they are."""


def name(words: list[str]) -> str:
    first = words[0].upper()
    return f"{first}|{words[1].upper()}".lower() if first in CONTAINERS and len(words) > 1 else first.lower()


class Recorder:
    """Forwards to a unix socket. `seen` has the commands of everybody who came this way."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.seen: set[str] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, user: str, password: str) -> str:
        return f"redis://{user}:{password}@127.0.0.1:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._target)
                threading.Thread(target=self._pump, args=(near, far, hiredis.Reader()), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, None), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, reader: hiredis.Reader | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if reader is not None:
                    reader.feed(data)
                    while (words := reader.gets()) is not False:
                        self.seen.add(name([word.decode(errors="replace") for word in words[:2]]))
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def recording(target: str) -> Iterator[Recorder]:
    recorder = Recorder(target)
    try:
        yield recorder
    finally:
        recorder.close()


_BY_A_SCRIPT = re.compile(rb'\[\d+ lua\] "([A-Za-z]+)"(?: "([A-Za-z]+)")?')


@contextlib.contextmanager
def scripts(target: str) -> Iterator[set[str]]:
    """Commands that functions run on the server, for the length of a block."""
    seen: set[str] = set()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(target)
        line.sendall(b"MONITOR\r\n")

        def listen() -> None:
            with contextlib.suppress(OSError), line.makefile("rb") as lines:
                for one in lines:
                    if found := _BY_A_SCRIPT.search(one[:200]):
                        seen.add(name([word.decode() for word in found.groups() if word]))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        yield seen
        line.shutdown(socket.SHUT_RDWR)
        listener.join()
