"""A client of server-sent events, with nothing but the standard library."""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit


class EventStreamClient:
    """One connection that receives events."""

    def __init__(self, base: str, path: str) -> None:
        parts = urlsplit(base)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=15)
        self._connection.request("GET", path)
        self.response = self._connection.getresponse()
        self.status = self.response.status

    def next(self) -> dict[str, Any] | None:
        """The data of the next event; None if the server has ended the stream."""
        while line := self.response.readline():
            if line.startswith(b"data: "):
                data: dict[str, Any] = json.loads(line[6:])
                return data
        return None

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The data of the first event for which the condition holds."""
        while (data := self.next()) is not None:
            if condition(data):
                return data
        raise AssertionError("the stream ended before that")

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextlib.contextmanager
def connect(base: str, path: str) -> Iterator[EventStreamClient]:
    client = EventStreamClient(base, path)
    try:
        yield client
    finally:
        client.close()
