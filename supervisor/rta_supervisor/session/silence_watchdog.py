"""Abandons sessions whose writers are gone: no report for a long time, and no new data in the stream either."""

from collections.abc import Callable
from typing import Final

import redis.exceptions

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import time_limits
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_wire import errors

CHECKS_PER_DEADLINE: Final = 6


class SilenceWatchdog:
    """Checks all sessions without a report for longer than `session.writer_silent_s`."""

    def __init__(
        self,
        sessions: SessionStore,
        service: SessionService,
        config: settings.Settings,
        listening_since_ms: Callable[[], int],
        clock: Clock = now_ms,
    ) -> None:
        """`listening_since_ms`: since when every report that is sent is read. Silence before that proves nothing."""
        self._sessions = sessions
        self._service = service
        self._config = config
        self._listening_since_ms = listening_since_ms
        self._clock = clock
        self._log = log.get()

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Look for silent writers until cancelled."""
        await periodic.in_turns(
            turns,
            lambda: self._config.session.writer_silent_s / CHECKS_PER_DEADLINE,
            self._check_in_turn,
            self._sessions.outage_log,
        )

    async def _check_in_turn(self, until_ms: int | None) -> None:
        if until_ms is None:
            return
        try:
            await self.check(until_ms)
        except leases.LeaseExpired:
            self._log.warning("lease_lost", duty="watchdog")

    async def check(self, until_ms: int = commands.FOREVER) -> None:
        """Abandon the sessions whose writers are silent now. No close is begun after the lease ends at `until_ms`."""
        at_ms = self._clock()
        silent = await self._sessions.silent_since(at_ms - int(self._config.session.writer_silent_s * 1000))
        for identity, reported_ms in silent.items():
            silence = time_limits.Silence(reported_ms, self._listening_since_ms())
            if time_limits.is_abandoned(silence, at_ms, self._config.session):
                try:
                    await self._abandon(identity, silent_ms=at_ms - reported_ms, until_ms=until_ms)
                except (errors.SpoiltKey, redis.exceptions.ResponseError) as error:
                    self._sessions.log_spoilt_or_raise(identity, error)

    async def _abandon(self, identity: str, *, silent_ms: int, until_ms: int) -> None:
        record = await self._sessions.read(identity)
        if record is None:
            return
        if record.state.is_closed:
            await self._service.complete_close(record)
            return
        if await self._sessions.has_unfolded_marks(record.ref):
            # Data came that was not reported, so a writer is alive. Noted before the marks are folded: afterwards they
            # would not differ, and a supervisor that dies in between would leave no trace of it.
            await self._sessions.note_heartbeat([record.ref])
            if (await self._sessions.fold_marks(record.ref)).is_changed:
                return
        self._log.warning("writer_silent", session=identity, stream=record.ref.stream, silent_s=silent_ms // 1000)
        await self._service.end(record, SessionEvent.ABANDON, until_ms=until_ms)
