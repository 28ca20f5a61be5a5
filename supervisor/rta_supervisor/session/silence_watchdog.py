"""Ends sessions whose writers are gone: silent for long, and nothing came from them either."""

from collections.abc import Callable

import redis.exceptions

from rta_supervisor.control import deadlines
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands

LOOKS_PER_DEADLINE = 6


class SilenceWatchdog:
    """Looks at the sessions that were not heard of for the longest time."""

    def __init__(
        self,
        sessions: SessionStore,
        life: SessionService,
        config: settings.Settings,
        listening_since_ms: Callable[[], int],
        clock: Clock = now_ms,
    ) -> None:
        self._sessions = sessions
        self._life = life
        self._config = config
        self._listening_since_ms = listening_since_ms
        self._clock = clock
        self._log = log.get()

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Look for silent writers until cancelled."""
        await periodic.in_turns(
            turns,
            lambda: self._config.session.writer_silent_s / LOOKS_PER_DEADLINE,
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
        """One round, under a lease that ends then."""
        at_ms = self._clock()
        silent = await self._sessions.silent_since(at_ms - int(self._config.session.writer_silent_s * 1000))
        for identity, heard_ms in silent.items():
            silence = deadlines.Silence(heard_ms, self._listening_since_ms())
            if deadlines.is_abandoned(silence, at_ms, self._config.session):
                try:
                    await self._abandon(identity, silent_ms=at_ms - heard_ms, until_ms=until_ms)
                except redis.exceptions.ResponseError as error:
                    self._sessions.log_spoilt_or_raise(identity, error)

    async def _abandon(self, identity: str, *, silent_ms: int, until_ms: int) -> None:
        known = await self._sessions.read(identity)
        if known is None:
            return
        if known.state.is_closed:
            await self._life.complete_close(known)
            return
        marks = await self._sessions.marks(known.ref)
        if any(known.unit_totals.get(unit) != " ".join(totals.words()) for unit, totals in marks.items()):
            # Data came, only nobody reported it: somebody writes. Noted before it is folded, when it is news no more.
            await self._sessions.note_heartbeat([known.ref])
            if await self._sessions.fold_marks(known.ref):
                return
        self._log.warning("writer_silent", session=identity, stream=known.ref.stream, silent_s=silent_ms // 1000)
        await self._life.end(known, SessionEvent.ABANDON, until_ms=until_ms)
