"""The loop of a periodic duty: waits for its time or its turn, does it, and goes on after an outage of Redis.

Which supervisor has the turn is decided in `leases`; what a duty does, by its owner.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import anyio

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.outage_log import OutageLog


class DutyTurns(Protocol):
    """Turns of a duty among several supervisors."""

    async def next_turn(self, every_s: float) -> int | None:
        """Wait for the next turn, for `every_s` at most.

        Gives the end of our lease by the server's clock in ms, `FOREVER` if the duty needs none, or None if another
        supervisor has it.
        """


class Unleased:
    """Turns of a duty that every supervisor does: each wait is a turn."""

    async def next_turn(self, every_s: float) -> int | None:
        """Wait for `every_s`. The turn never ends."""
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
    """Do a duty in each turn until cancelled. It gets what `DutyTurns.next_turn` gave.

    `pause_s` is called before each wait, since settings may change it. `at_once`: the first turn comes without a pause.
    A duty that an outage of Redis interrupted is logged and done again in the next turn; any other error is raised.
    """
    wait_s = 0.0 if at_once else pause_s()
    while True:
        loop_watch.report_alive(wait_s)
        until_ms = await turns.next_turn(wait_s)
        try:
            await duty(until_ms)
        except RETRIABLE_ERRORS as error:
            outage_log.log_failure(error)
        wait_s = pause_s()


async def every(
    pause_s: Callable[[], float], duty: Callable[[], Awaitable[object]], outage_log: OutageLog, *, at_once: bool = False
) -> None:
    """Do a duty that needs no lease, at intervals until cancelled. Pauses and errors are handled as in `in_turns`."""
    await in_turns(UNLEASED, pause_s, lambda _: duty(), outage_log, at_once=at_once)
