"""The time as Redis has it, carried on by a clock that never jumps. Clocks of hosts differ, and some of them jump.

Entry ids are the server's time, so whoever compares with them needs the same clock; and supervisors of several hosts
agree on who was silent for how long.
"""

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic, server_clock
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
        """Follow the server's time until cancelled."""
        await periodic.every(lambda: self._every_s, self._sync_and_report, self._link.outage_log)

    async def _sync_and_report(self) -> None:
        if await self.sync():
            self._log.warning("clock_jumped", clock_ms=self._clock())
