"""Bounds on connections."""

import contextlib
from collections.abc import Iterator


class ConnectionLimit:
    """How many may watch at once."""

    def __init__(self, most: int) -> None:
        self._left = most

    @property
    def is_reached(self) -> bool:
        return self._left <= 0

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1
