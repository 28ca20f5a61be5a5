"""A client of server-sent events, with nothing but the standard library."""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit


class Watcher:
    """One connection that stays."""

    def __init__(self, base: str, path: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(base)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=15)
        self._connection.request("GET", path, headers=headers or {})
        self.answer = self._connection.getresponse()
        self.status = self.answer.status

    def next(self) -> dict[str, Any] | None:
        """The next event; None where the server has ended the stream."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        return None

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first event for which it holds."""
        while (found := self.next()) is not None:
            if condition(found):
                return found
        raise AssertionError("the stream ended before that")

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextlib.contextmanager
def watching(base: str, path: str, headers: dict[str, str] | None = None) -> Iterator[Watcher]:
    watcher = Watcher(base, path, headers)
    try:
        yield watcher
    finally:
        watcher.close()
