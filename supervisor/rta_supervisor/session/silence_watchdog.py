"""Abandons sessions whose writers are gone: no report for a long time, and no new data in the stream either."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import time_limits
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging
from rta_wire import errors

CHECKS_PER_DEADLINE: Final = 6

AT_A_TIME: Final = 8
"""Sessions that are ended side by side: a driver that died may have kept thousands of them alive."""


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
        self._is_behind = False
        """Whether the last check left sessions for the next one, which begins at once then."""
        self._seen: set[str] = set()
        """Sessions that such checks looked at. Ended ones stay in the index until the catalogue has them."""
        self._log = log.get()

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Look for silent writers until cancelled."""
        await periodic.in_turns(
            turns,
            lambda: 0.0 if self._is_behind else self._config.session.writer_silent_s / CHECKS_PER_DEADLINE,
            self._check_in_turn,
            self._sessions.outage_log,
        )

    async def _check_in_turn(self, until_ms: int | None) -> None:
        if not self._is_behind:
            self._seen.clear()
        self._is_behind = False
        if until_ms is None:
            return
        try:
            half_s = self._config.node.lease_s / 2
            self._is_behind = not await self.check(until_ms, at_most_s=half_s, seen=self._seen)
        except leases.LeaseExpired:
            self._log.warning("lease_lost", duty="watchdog")

    async def check(
        self, until_ms: int = commands.FOREVER, *, at_most_s: float = math.inf, seen: set[str] | None = None
    ) -> bool:
        """Abandon the sessions whose writers are silent now. No close is begun after the lease ends at `until_ms`.

        Gives whether that was all of them: after `at_most_s` it is time to look anew who is silent. Sessions in `seen`
        are left out, and those that were looked at are added.
        """
        seen = set() if seen is None else seen
        at_ms = self._clock()
        silent = await self._sessions.silent_since(at_ms - int(self._config.session.writer_silent_s * 1000))
        remaining = [item for item in silent.items() if item[0] not in seen]
        ends_s = anyio.current_time() + at_most_s

        async def check_one(page: Sequence[tuple[str, int]]) -> list[bool]:
            if anyio.current_time() >= ends_s:
                return [False]
            loop_watch.report_alive()
            [(identity, reported_ms)] = page
            silence = time_limits.Silence(reported_ms, self._listening_since_ms())
            if time_limits.is_abandoned(silence, at_ms, self._config.session):
                try:
                    await self._abandon(identity, silent_ms=at_ms - reported_ms, until_ms=until_ms)
                except (errors.SpoiltKey, redis.exceptions.ResponseError) as error:
                    self._sessions.log_spoilt_or_raise(identity, error)
            seen.add(identity)
            return [True]

        were_checked: list[bool] = await paging.map_pages(remaining, check_one, size=1, at_a_time=AT_A_TIME)
        return all(were_checked)

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
