"""Publishes the time ranges of sessions: soon while data arrives, and now and then while a session is idle. Keeps open
sessions from expiring and completes closes that a supervisor did not finish.
"""

from collections.abc import Callable, Collection, Sequence
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

EXTENSIONS_PER_LIFETIME: Final = 100
"""How often gates, external ids and closed sessions are kept from expiring, within the shortest of their lifetimes."""

IDLE_PASSES: Final = 2.2
"""Passes over idle sessions in the time within which each has to be refreshed. A pass leaves out what was refreshed
since the one before, so it takes two, and a little room for the time that a pass takes."""


OUTAGE_PAUSE_S: Final = 0.5


class Refresher:
    """Coalesces: however many reports come, a session's time range is published once per interval."""

    def __init__(
        self,
        sessions: SessionStore,
        service: SessionService,
        config: settings.Settings,
        on_progress: Callable[[Sequence[Published]], None],
    ) -> None:
        """`on_progress`: called with the totals of sessions that were refreshed."""
        self._sessions = sessions
        self._service = service
        self._config = config
        self._on_progress = on_progress
        self._changed: set[SessionRef] = set()
        self._changed_since_s = 0.0
        self._has_changed = anyio.Event()
        self._refreshed: set[SessionRef] = set()
        """Sessions whose lifetime was renewed since the last pass over idle sessions began."""
        self._next_extension_s = 0.0
        self._gaps: set[str] = set()
        """Principals whose reports were evicted unread."""
        self._has_gaps = anyio.Event()
        self._log = log.get()

    def mark_changed(self, ref: SessionRef) -> None:
        """Note that the folded state of a session has changed."""
        if not self._changed:
            self._changed_since_s = anyio.current_time()
        self._changed.add(ref)
        self._has_changed.set()

    async def run(self) -> None:
        """Refresh sessions that changed, until cancelled."""
        while True:
            loop_watch.report_waiting()
            await self._has_changed.wait()
            loop_watch.report_alive()
            await self.flush()
            await anyio.sleep(self._config.session.refresh_ms / 1000)

    async def flush(self) -> None:
        """Refresh sessions that changed now. What an outage interrupts is done after it."""
        changed, self._changed = self._changed, set()
        changed_since_s = self._changed_since_s
        self._has_changed = anyio.Event()
        try:
            self._on_progress(await self._sessions.refresh(changed, renewed=self._refreshed))
            self._refreshed |= changed
            if changed:
                counters.counts.refresh_delay_s.observe(anyio.current_time() - changed_since_s)
        except RETRIABLE_ERRORS as error:
            self._sessions.outage_log.log_failure(error)
            for ref in changed:
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
        await self._extend_lifetimes([*idle, *refreshed], closed)
        # A supervisor that was killed while it closed these has left them.
        for record in await self._sessions.read_all([ref.identity for ref in closed]):
            if isinstance(record, SessionRecord):
                await self._complete_close(record)

    async def _complete_close(self, record: SessionRecord) -> None:
        try:
            await self._service.complete_close(record)
        except redis.exceptions.ResponseError as error:
            self._sessions.log_spoilt_or_raise(record.ref.identity, error)

    async def _extend_lifetimes(self, open_refs: Sequence[SessionRef], closed_refs: Sequence[SessionRef]) -> None:
        """Keep the gates and external ids of open sessions from expiring, and closed sessions that the catalogue does
        not have yet.

        Seldom, because each costs a call.
        """
        if anyio.current_time() >= self._next_extension_s:
            lifetime_s = min(self._config.session.open_ttl_s, self._config.session.external_id_ttl_s)
            self._next_extension_s = anyio.current_time() + lifetime_s / EXTENSIONS_PER_LIFETIME
            await self._sessions.extend_gates(open_refs)
            await self._service.external_ids.extend(open_refs)
            await self._sessions.extend_closed(closed_refs)

    def note_gap(self, principals: Collection[str]) -> None:
        """Note that reports of principals were evicted unread."""
        self._gaps.update(principals)
        self._has_gaps.set()

    async def run_gaps(self) -> None:
        """Fold the marks of the open sessions of principals with gaps, until cancelled: reports may be lost, marks are
        not. Others wait for none of it."""
        while True:
            loop_watch.report_waiting()
            await self._has_gaps.wait()
            loop_watch.report_alive()
            self._has_gaps = anyio.Event()
            principals, self._gaps = self._gaps, set()
            try:
                await self._fold_marks_of(principals)
            except RETRIABLE_ERRORS as error:
                self._sessions.outage_log.log_failure(error)
                self.note_gap(principals)
                await anyio.sleep(OUTAGE_PAUSE_S)

    async def _fold_marks_of(self, principals: Collection[str]) -> None:
        open_refs, _ = await self._sessions.open_and_closed()
        for ref in await self._sessions.owned_by(open_refs, principals):
            loop_watch.report_alive()
            if (await self._sessions.fold_marks(ref)).is_changed:
                self.mark_changed(ref)
