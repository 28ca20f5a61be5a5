"""The time of the Redis server, estimated on this host. Without I/O: `time_sync` reads the server's clock."""

import time
from collections.abc import Callable
from typing import Final

JUMP_MS: Final = 2000
"""A larger correction of the clock counts as a jump."""

Clock = Callable[[], int]
"""Milliseconds since the Unix epoch."""


class ServerClock:
    """Milliseconds since the Unix epoch by the server's clock; until the first adjustment by the host's clock.

    Goes on steadily between adjustments, whatever is done to the host's clock.
    """

    def __init__(self) -> None:
        self._offset_ms = time.time_ns() // 1_000_000 - _steady_ms()
        self.steady_since_ms = 0
        """The time of the last jump: differences to earlier times mean nothing."""

    def __call__(self) -> int:
        return _steady_ms() + self._offset_ms

    def adjust_to(self, server_ms: int) -> bool:
        """Set the clock to the server's time. Gives whether that was a jump."""
        has_jumped = abs(server_ms - self()) > JUMP_MS
        self._offset_ms = server_ms - _steady_ms()
        if has_jumped:
            self.steady_since_ms = server_ms
        return has_jumped


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000


now_ms: Final = ServerClock()
"""The clock that the whole process shares."""
