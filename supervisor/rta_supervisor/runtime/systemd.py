"""Tells systemd how we are, where systemd asked."""

import os
import socket
from collections.abc import Callable
from typing import Final

import anyio

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.diagnostics.loop_watch import LoopWatch

_failed_sockets: set[str] = set()
"""Listeners that did not take the last message: said once, and not with every message."""


def notify(state: str) -> bool:
    """One message, such as READY=1. Whether somebody took it; a listener that is gone is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        # A listener that reads no more must not hold up the loop.
        channel.setblocking(False)
        try:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
        except OSError as error:
            if address not in _failed_sockets:
                log.get().warning("notify_failed", state=state, error=str(error))
            _failed_sockets.add(address)
            return False
    _failed_sockets.discard(address)
    return True


EVERY_S: Final = 5.0


NOTIFICATIONS_PER_DEADLINE: Final = 3


TICK_S: Final = 0.25


def watchdog_deadline_s() -> float | None:
    """How often systemd wants to hear from us; None where it does not."""
    micros, pid = os.environ.get("WATCHDOG_USEC"), os.environ.get("WATCHDOG_PID")
    if not micros or (pid and pid != str(os.getpid())):
        return None
    return int(micros) / 1e6


class SystemdNotifier:
    """One for the daemon."""

    def __init__(self, progress: LoopWatch, describe: Callable[[], str]) -> None:
        self._progress = progress
        self._describe = describe
        self._is_stuck = False
        self._log = log.get()

    async def run(self) -> None:
        """Until cancelled."""
        limit_s = watchdog_deadline_s()
        every_s = EVERY_S if limit_s is None else min(EVERY_S, limit_s / NOTIFICATIONS_PER_DEADLINE)
        while True:
            self.notify_state(is_watched=limit_s is not None)
            log.log_suppressed()
            await anyio.sleep(every_s)

    def notify_state(self, *, is_watched: bool) -> None:
        stuck = self._progress.stuck()
        if stuck and not self._is_stuck:
            self._log.error("loop_stuck", loops=stuck)
        self._is_stuck = bool(stuck)
        words = [f"STATUS={self._describe()}"]
        if is_watched and not stuck:
            words.append("WATCHDOG=1")
        notify("\n".join(words))

    async def measure_delay(self) -> None:
        """How late the event loop wakes us, until cancelled."""
        while True:
            due_s = anyio.current_time() + TICK_S
            await anyio.sleep_until(due_s)
            counters.counts.loop_delay_s.observe(max(anyio.current_time() - due_s, 0.0))
