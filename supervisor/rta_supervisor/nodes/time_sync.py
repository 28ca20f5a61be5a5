"""Keeps the clock of this process at the time of the Redis server.

Entry ids hold the server's time, so whatever is compared with them needs that clock, and supervisors on several hosts
have to agree how long a session was silent. Clocks of hosts differ and jump.
"""

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic, server_clock
from rta_supervisor.transport.link import Link


class TimeSync:
    """Reads the server's clock every `every_s` seconds."""

    def __init__(self, link: Link, clock: server_clock.ServerClock, every_s: float) -> None:
        self._link = link
        self._clock = clock
        self._every_s = every_s
        self._log = log.get()

    async def sync(self) -> bool:
        """Set the clock to the server's time. Gives whether that was a jump."""
        seconds, microseconds = await self._link.do("TIME")
        return self._clock.adjust_to(int(seconds) * 1000 + int(microseconds) // 1000)

    async def run(self) -> None:
        """Sync until cancelled."""
        await periodic.every(lambda: self._every_s, self._sync_and_report, self._link.outage_log)

    async def _sync_and_report(self) -> None:
        if await self.sync():
            self._log.warning("clock_jumped", clock_ms=self._clock())
