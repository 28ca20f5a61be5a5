"""Notifies systemd, where it asked for it: ready, stopping, status, and that the loops make progress. While loops are
stuck the watchdog gets no notification, and systemd starts the supervisor again.
"""

import os
import socket
from collections.abc import Callable
from typing import Final

import anyio

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.diagnostics.loop_watch import LoopWatch

EVERY_S: Final = 5.0
NOTIFICATIONS_PER_DEADLINE: Final = 3
TICK_S: Final = 0.25

_failed_sockets: set[str] = set()
"""Sockets that did not take the last message: each failure is logged once, and not with every message."""


def notify(state: str) -> bool:
    """Send one message, such as READY=1. Whether it was taken; a socket that nobody reads is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # A full socket must not block the event loop.
            channel.setblocking(False)
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
    except OSError as error:
        if address not in _failed_sockets:
            log.get().warning("notify_failed", state=state, error=str(error))
        _failed_sockets.add(address)
        return False
    _failed_sockets.discard(address)
    return True


def watchdog_deadline_s() -> float | None:
    """Within which time systemd's watchdog wants each notification; None where it is not set for this process."""
    micros, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
    if not micros or (pid and pid != str(os.getpid())):
        return None
    return int(micros) / 1e6


class SystemdNotifier:
    """Notifies systemd of the status and of progress, and measures the delay of the event loop."""

    def __init__(self, loops: LoopWatch, describe: Callable[[], str]) -> None:
        """`describe`: gives the status, in one line."""
        self._loops = loops
        self._describe = describe
        self._is_stuck = False
        self._log = log.get()

    async def run(self) -> None:
        """Notify until cancelled, and log how often events were suppressed."""
        deadline_s = watchdog_deadline_s()
        every_s = EVERY_S if deadline_s is None else min(EVERY_S, deadline_s / NOTIFICATIONS_PER_DEADLINE)
        while True:
            self.notify_state(is_watched=deadline_s is not None)
            log.log_suppressed()
            await anyio.sleep(every_s)

    def notify_state(self, *, is_watched: bool) -> None:
        """Send the status, and a sign of life to the watchdog where there is one and no loop is stuck."""
        stuck = self._loops.stuck()
        if stuck and not self._is_stuck:
            self._log.error("loop_stuck", loops=stuck)
        self._is_stuck = bool(stuck)
        assignments = [f"STATUS={self._describe()}"]
        if is_watched and not stuck:
            assignments.append("WATCHDOG=1")
        notify("\n".join(assignments))

    async def measure_delay(self) -> None:
        """Count how late the event loop wakes a task, until cancelled."""
        while True:
            due_s = anyio.current_time() + TICK_S
            await anyio.sleep_until(due_s)
            counters.counts.loop_delay_s.observe(max(anyio.current_time() - due_s, 0.0))
