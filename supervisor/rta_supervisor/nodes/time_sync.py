"""The time as Redis has it, carried on by a clock that never jumps. Clocks of hosts differ, and some of them jump.

Entry ids are the server's time, so whoever compares with them needs the same clock; and supervisors of several hosts
agree on who was silent for how long.
"""

import time
from collections.abc import Callable
from typing import Final

import anyio

from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.transport.link import Link, Trouble

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

    def follow(self, server_ms: int) -> bool:
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


class Timekeeper:
    """Asks the server for its time now and then."""

    def __init__(self, link: Link, clock: ServerClock, every_s: float) -> None:
        self._link = link
        self._clock = clock
        self._every_s = every_s
        self._log = log.get()

    async def look(self) -> bool:
        """Take over the server's time. Whether it jumped."""
        seconds, microseconds = await self._link.do("TIME")
        return self._clock.follow(int(seconds) * 1000 + int(microseconds) // 1000)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            loop_watch.step(self._every_s)
            await anyio.sleep(self._every_s)
            try:
                if await self.look():
                    self._log.warning("clock_jumped", clock_ms=self._clock())
            except Trouble as error:
                self._link.complaints.note(error)
