"""Shows readers what was folded: soon while data arrives, now and then while a session is idle."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.session.model import Published, SessionRecord, SessionRef
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS

KEEPS_PER_LIFE: Final = 100

IDLE_PASSES: Final = 2.2
"""In the time within which a session has to be refreshed. A pass leaves out what was refreshed since the one before, so
it takes two, and a little room for the time that a pass takes."""


class Refresher:
    """Coalesces: however many reports come, a session's time range goes out once per interval."""

    def __init__(
        self,
        sessions: SessionStore,
        life: SessionService,
        config: settings.Settings,
        on_progress: Callable[[Sequence[Published]], None],
    ) -> None:
        self._sessions = sessions
        self._life = life
        self._config = config
        self._on_progress = on_progress
        self._touched: set[SessionRef] = set()
        self._refreshed: set[SessionRef] = set()
        self._next_keep_s = 0.0
        self._since_s = 0.0
        self._some = anyio.Event()
        self._log = log.get()

    def mark_changed(self, ref: SessionRef) -> None:
        """Note that a session has news for its readers."""
        if not self._touched:
            self._since_s = anyio.current_time()
        self._touched.add(ref)
        self._some.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            loop_watch.report_waiting()
            await self._some.wait()
            loop_watch.report_alive()
            await self.flush()
            await anyio.sleep(self._config.session.refresh_ms / 1000)

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
        except RETRIABLE_ERRORS as error:
            self._sessions.outage_log.log_failure(error)
            for ref in touched:
                self.mark_changed(ref)

    async def run_idle(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Renew `lastUpdated` and the lifetime of every open session, until cancelled."""
        await periodic.in_turns(
            turns,
            lambda: self._config.session.idle_refresh_s / IDLE_PASSES,
            self._refresh_idle,
            self._sessions.outage_log,
        )

    async def _refresh_idle(self, until_ms: int | None) -> None:
        refreshed, self._refreshed = self._refreshed, set()
        if until_ms is None:
            return
        idle, closed = await self._sessions.open_and_closed(besides={ref.identity for ref in refreshed})
        await self._sessions.refresh(idle)
        self._refreshed.update(idle)
        await self._keep([*idle, *refreshed], closed)
        # A supervisor that was killed while it closed these has left them.
        for record in await self._sessions.read_all([ref.identity for ref in closed]):
            if record is not None:
                await self._complete_close(record)

    async def _complete_close(self, record: SessionRecord) -> None:
        try:
            await self._life.complete_close(record)
        except redis.exceptions.ResponseError as error:
            self._sessions.log_spoilt_or_raise(record.ref.identity, error)

    async def _keep(self, live: Sequence[SessionRef], closed: Sequence[SessionRef]) -> None:
        """Gates live as long as sessions, and so do closed sessions that no catalogue has yet. They are looked at
        seldom: each look costs a call."""
        if anyio.current_time() >= self._next_keep_s:
            self._next_keep_s = anyio.current_time() + self._config.session.open_ttl_s / KEEPS_PER_LIFE
            await self._sessions.extend_gates(live)
            await self._sessions.extend_closed(closed)

    async def recount(self) -> None:
        """Count again what stands in the streams: reports of it may be lost, the marks are not."""
        live, _ = await self._sessions.open_and_closed()
        for ref in live:
            if await self._sessions.fold_marks(ref):
                self.mark_changed(ref)
