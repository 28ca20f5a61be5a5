"""Keeps the catalogue of this host in step with sessions that supervisors on other hosts serve.

Where each host has a catalogue of its own, one without the end of a session would bring the session back after a loss.
Where hosts share one, one supervisor at a time looks for what a supervisor that is gone has not written.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE
from rta_wire import errors

SYNC_INTERVAL_S: Final = 30.0
SYNCS_PER_CLOSED_TTL: Final = 4
"""How often to sync while a closed session lives: it has to be seen before it expires."""

RECENT_MS: Final = 2 * int(SYNC_INTERVAL_S) * 1000
"""Sessions that were in use so lately are looked at. Of others a sync has told."""

IDLE_TIMES: Final = 10
"""How many times as long as a look for new sessions takes it is left until the next one."""


class CatalogueSync:
    """Looks at all sessions now and then, while other supervisors run."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        catalogue: Catalogue,
        config: settings.Settings,
        *,
        on_stale: Callable[[str], None],
        close_reopened: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_stale`: called with the identity of each session whose row may be old.

        `close_reopened`: ends in Redis what is closed in the catalogue.
        """
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._keys = config.keys
        self._every_s = min(SYNC_INTERVAL_S, config.session.closed_ttl_s / SYNCS_PER_CLOSED_TTL)
        self._on_stale = on_stale
        self._close_reopened = close_reopened
        self._is_new_turn = True
        self._had_others = False
        self._log = log.get()

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sync until cancelled: at once, at the beginning of each turn, and then while there are other supervisors."""
        await periodic.in_turns(turns, lambda: self._every_s, self._sync_in_turn, self._link.outage_log, at_once=True)

    async def _sync_in_turn(self, until_ms: int | None) -> None:
        if until_ms is None:
            self._is_new_turn = True
            return
        try:
            has_others = await self._link.do("ZCARD", self._keys.nodes()) > 1
            if self._is_new_turn or has_others or self._had_others:
                await self.sync()
            self._is_new_turn = False
            self._had_others = has_others  # one that has stopped since may have served sessions after the last sync
        except errors.CatalogueUnavailable as error:
            # The catalogue writer reports it as an error.
            self._log.debug("catalogue_not_followed", error=str(error))

    async def sync(self) -> None:
        """Have the rows of all sessions in Redis, and of all unfinished ones in the catalogue, written again."""
        live, closed = await self._sessions.open_and_closed()
        for ref in (*live, *closed):
            self._on_stale(ref.identity)
        for row in await self._catalogue.unfinished():
            self._on_stale(row.identity)
        await self._close_reopened()


class RecentSessions:
    """Looks for sessions that came into the index of sessions since the last look: other supervisors have opened some,
    and a search must not wait for the next sync."""

    def __init__(
        self, link: Link, config: settings.Settings, on_new: Callable[[str], None], *, clock: Clock = now_ms
    ) -> None:
        """`on_new`: called with the identity of each session that was not there before."""
        self._link = link
        self._keys = config.keys
        self._on_new = on_new
        self._clock = clock
        self._seen: frozenset[bytes] = frozenset()
        self._due_s = 0.0
        self._looking = anyio.Lock()

    async def look(self) -> None:
        """Report the sessions that are new. Whether another supervisor runs says nothing: one that has just stopped may
        have opened them."""
        async with self._looking:
            begin_s = anyio.current_time()
            if begin_s < self._due_s:
                return
            recent = await self._read_recent()
            for identity in recent - self._seen:
                self._on_new(identity.decode())
            self._seen = recent
            end_s = anyio.current_time()
            self._due_s = end_s + IDLE_TIMES * (end_s - begin_s)

    async def _read_recent(self) -> frozenset[bytes]:
        """The sessions in use lately, the latest first: of those that are used meanwhile none is left out."""
        since_ms = self._clock() - RECENT_MS
        recent: list[bytes] = []
        while True:
            limit = ("LIMIT", len(recent), PAGE_SIZE)
            page = await self._link.do("ZRANGE", self._keys.session_index(), "+inf", since_ms, "BYSCORE", "REV", *limit)
            recent += page
            if len(page) < PAGE_SIZE:
                return frozenset(recent)
