"""The time as Redis has it, carried on by a clock that never jumps. Clocks of hosts differ, and some of them jump.

Entry ids are the server's time, so whoever compares with them needs the same clock; and supervisors of several hosts
agree on who was silent for how long.
"""

import anyio

from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import server_clock
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link


class TimeSync:
    """Asks the server for its time now and then."""

    def __init__(self, link: Link, clock: server_clock.ServerClock, every_s: float) -> None:
        self._link = link
        self._clock = clock
        self._every_s = every_s
        self._log = log.get()

    async def sync(self) -> bool:
        """Take over the server's time. Whether it jumped."""
        seconds, microseconds = await self._link.do("TIME")
        return self._clock.adjust_to(int(seconds) * 1000 + int(microseconds) // 1000)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            loop_watch.report_alive(self._every_s)
            await anyio.sleep(self._every_s)
            try:
                if await self.sync():
                    self._log.warning("clock_jumped", clock_ms=self._clock())
            except RETRIABLE_ERRORS as error:
                self._link.outage_log.log_failure(error)
