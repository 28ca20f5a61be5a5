"""The loop of every duty that is done again and again: waits for its time or its turn, and outlives an outage of Redis.

What a duty does is its own; which supervisor has its turn is decided in `leases`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.outage_log import OutageLog


class DutyTurns(Protocol):
    """When it is this supervisor's turn to do a duty."""

    async def next(self, every_s: float) -> int | None:
        """Wait for the next turn: until when it may be acted on, or None where another supervisor does the duty."""


class Unleased:
    """Turns of a duty that is shared with no other supervisor."""

    async def next(self, every_s: float) -> int | None:
        await anyio.sleep(every_s)
        return commands.FOREVER


UNLEASED: Final = Unleased()


async def in_turns(
    turns: DutyTurns,
    pause_s: Callable[[], float],
    duty: Callable[[int | None], Awaitable[object]],
    outage_log: OutageLog,
    *,
    at_once: bool = False,
) -> None:
    """Do a duty until cancelled. It gets the end of its turn, or None where another supervisor has the turn.

    `pause_s` is asked before each wait: it may change with the settings. `at_once`: the first time without a wait.
    What an outage interrupts is done the next time.
    """
    wait_s = 0.0 if at_once else pause_s()
    while True:
        loop_watch.report_alive(wait_s)
        until_ms = await turns.next(wait_s)
        try:
            await duty(until_ms)
        except RETRIABLE_ERRORS as error:
            outage_log.log_failure(error)
        wait_s = pause_s()


async def every(
    pause_s: Callable[[], float], duty: Callable[[], Awaitable[object]], outage_log: OutageLog, *, at_once: bool = False
) -> None:
    """Do a duty of every supervisor until cancelled."""
    await in_turns(UNLEASED, pause_s, lambda _: duty(), outage_log, at_once=at_once)
