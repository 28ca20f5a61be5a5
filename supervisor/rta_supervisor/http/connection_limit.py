"""A limit on connections that stay open."""

import contextlib
from collections.abc import Iterator


class ConnectionLimit:
    """Limits the open connections of one kind. A server refuses a new connection while `is_reached`."""

    def __init__(self, max_connections: int) -> None:
        self._free = max_connections

    @property
    def is_reached(self) -> bool:
        return self._free <= 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Count one connection as open until the end of the block."""
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
