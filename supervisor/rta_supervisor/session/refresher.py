"""Shows readers what was folded: soon while data arrives, now and then while a session is idle."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.session.model import Known, Ref, Shown
from rta_supervisor.session.service import Life
from rta_supervisor.session.store import Sessions
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Trouble

KEEPS_PER_LIFE: Final = 100

IDLE_PASSES: Final = 2.2
"""In the time within which a session has to be refreshed. A pass leaves out what was refreshed since the one before, so
it takes two, and a little room for the time that a pass takes."""


class Refresher:
    """Coalesces: however many reports come, a session's time range goes out once per interval."""

    def __init__(
        self,
        sessions: Sessions,
        life: Life,
        config: settings.SessionSettings,
        on_progress: Callable[[Sequence[Shown]], None],
    ) -> None:
        self._sessions = sessions
        self._life = life
        self._config = config
        self._on_progress = on_progress
        self._touched: set[Ref] = set()
        self._refreshed: set[Ref] = set()
        self._next_keep_s = 0.0
        self._since_s = 0.0
        self._some = anyio.Event()
        self._log = log.get()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.session

    def touch(self, ref: Ref) -> None:
        """Note that a session has news for its readers."""
        if not self._touched:
            self._since_s = anyio.current_time()
        self._touched.add(ref)
        self._some.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            loop_watch.rest()
            await self._some.wait()
            loop_watch.step()
            await self.flush()
            await anyio.sleep(self._config.refresh_ms / 1000)

    async def flush(self) -> None:
        """Send out what is waiting now. What an outage interrupts goes out after it."""
        touched, self._touched = self._touched, set()
        since_s = self._since_s
        self._some = anyio.Event()
        try:
            self._on_progress(await self._sessions.refresh(touched, renewed=self._refreshed))
            self._refreshed |= touched
            if touched:
                counters.counts.refresh_delay_s.observe(anyio.current_time() - since_s)
        except Trouble as error:
            self._sessions.complaints.note(error)
            for ref in touched:
                self.touch(ref)

    async def run_idle(self, turns: leases.Turns = leases.ALWAYS) -> None:
        """Renew `lastUpdated` and the lifetime of every open session, until cancelled."""
        while True:
            pause_s = self._config.idle_refresh_s / IDLE_PASSES
            loop_watch.step(pause_s)
            until_ms = await turns.next(pause_s)
            refreshed, self._refreshed = self._refreshed, set()
            if until_ms is None:
                continue
            try:
                idle, closed = await self._sessions.live(besides={ref.identity for ref in refreshed})
                await self._sessions.refresh(idle)
                self._refreshed.update(idle)
                await self._keep([*idle, *refreshed], closed)
                # A supervisor that was killed while it closed these has left them.
                for known in await self._sessions.read_all([ref.identity for ref in closed]):
                    if known is not None:
                        await self._finish_off(known)
            except Trouble as error:
                self._sessions.complaints.note(error)

    async def _finish_off(self, known: Known) -> None:
        try:
            await self._life.finish_off(known)
        except redis.exceptions.ResponseError as error:
            self._sessions.give_up(known.ref.identity, error)

    async def _keep(self, live: Sequence[Ref], closed: Sequence[Ref]) -> None:
        """Gates live as long as sessions, and so do closed sessions that no catalogue has yet. They are looked at
        seldom: each look costs a call."""
        if anyio.current_time() >= self._next_keep_s:
            self._next_keep_s = anyio.current_time() + self._config.open_ttl_s / KEEPS_PER_LIFE
            await self._sessions.keep(live)
            await self._sessions.hold(closed)

    async def rescan(self) -> None:
        """Count again what stands in the streams: reports of it may be lost, the marks are not."""
        live, _ = await self._sessions.live()
        for ref in live:
            if await self._sessions.fold_marks(ref):
                self.touch(ref)
