"""A limit on connections that stay open."""

import contextlib
from collections.abc import Iterator


class ConnectionLimit:
    """Counts the open connections of one kind. Whoever accepts one checks `is_reached` before."""

    def __init__(self, max_connections: int) -> None:
        self._free = max_connections

    @property
    def is_reached(self) -> bool:
        return self._free <= 0

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Takes one of the connections, and gives it back at the end."""
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
