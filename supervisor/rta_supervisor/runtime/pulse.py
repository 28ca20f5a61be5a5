"""Tells systemd all the time how we are: what we do, and that we get somewhere. Where loops are stuck it says nothing,
and systemd starts us anew.
"""

import os
from collections.abc import Callable
from typing import Final

import anyio

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.diagnostics.loop_watch import Progress
from rta_supervisor.runtime import systemd

EVERY_S: Final = 5.0
PULSES_PER_DEADLINE: Final = 3
TICK_S: Final = 0.25


def deadline_s() -> float | None:
    """How often systemd wants to hear from us; None where it does not."""
    micros, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
    if not micros or (pid and pid != str(os.getpid())):
        return None
    return int(micros) / 1e6


class Pulse:
    """One for the daemon."""

    def __init__(self, progress: Progress, describe: Callable[[], str]) -> None:
        self._progress = progress
        self._describe = describe
        self._is_stuck = False
        self._log = log.get()

    async def run(self) -> None:
        """Until cancelled."""
        limit_s = deadline_s()
        every_s = EVERY_S if limit_s is None else min(EVERY_S, limit_s / PULSES_PER_DEADLINE)
        while True:
            self.beat(is_watched=limit_s is not None)
            log.tell_repeats()
            await anyio.sleep(every_s)

    def beat(self, *, is_watched: bool) -> None:
        stuck = self._progress.stuck()
        if stuck and not self._is_stuck:
            self._log.error("loop_stuck", loops=stuck)
        self._is_stuck = bool(stuck)
        words = [f"STATUS={self._describe()}"]
        if is_watched and not stuck:
            words.append("WATCHDOG=1")
        systemd.send("\n".join(words))

    async def measure_delay(self) -> None:
        """How late the event loop wakes us, until cancelled."""
        while True:
            due_s = anyio.current_time() + TICK_S
            await anyio.sleep_until(due_s)
            counters.counts.loop_delay_s.observe(max(anyio.current_time() - due_s, 0.0))
