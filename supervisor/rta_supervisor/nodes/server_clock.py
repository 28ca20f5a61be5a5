"""The time of the Redis server, as this host knows it. Pure: `time_sync` asks the server."""

import time
from collections.abc import Callable
from typing import Final

JUMP_MS: Final = 2000


Clock = Callable[[], int]
"""Milliseconds since the Unix epoch."""


class ServerClock:
    """Milliseconds since the Unix epoch. Until the server was asked, as our own clock had them at the start."""

    def __init__(self) -> None:
        self._offset_ms = time.time_ns() // 1_000_000 - _steady_ms()
        self.steady_since_ms = 0
        """Since when times can be compared: the last jump."""

    def __call__(self) -> int:
        return _steady_ms() + self._offset_ms

    def adjust_to(self, server_ms: int) -> bool:
        """Go on from the server's time. Whether that was a jump."""
        has_jumped = abs(server_ms - self()) > JUMP_MS
        self._offset_ms = server_ms - _steady_ms()
        if has_jumped:
            self.steady_since_ms = server_ms
        return has_jumped


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000


now_ms: Final = ServerClock()
"""The time of all of this process."""
