"""Keeps the catalogue of this host in step with the sessions that supervisors on other hosts serve.

Where each host has a catalogue of its own, one that does not hear of an end would bring the session back after a loss.
Where they share one, one of them at a time looks for what a supervisor that is gone has not written.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from rta_supervisor.catalogue.model import Catalogue
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import errors

SYNC_INTERVAL_S: Final = 30.0
SYNCS_PER_CLOSED_TTL: Final = 4
"""A closed session has to be seen before it expires."""


class CatalogueSync:
    """Looks at all sessions now and then, while there are other supervisors."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        catalogue: Catalogue,
        config: settings.Settings,
        *,
        on_stale: Callable[[str], None],
        close_again: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_stale`: called for every session whose row may be old.

        `close_again`: ends what only another host thinks open.
        """
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._keys = config.keys
        self._every_s = min(SYNC_INTERVAL_S, config.session.closed_ttl_s / SYNCS_PER_CLOSED_TTL)
        self._note = on_stale
        self._end_again = close_again
        self._log = log.get()

    async def run(self, turns: leases.DutyTurns = leases.UNLEASED) -> None:
        """Until cancelled. First of all what happened while we were away, or while it was not our turn."""
        is_first, pause_s = True, 0.0
        while True:
            loop_watch.report_alive(self._every_s)
            is_our_turn = await turns.next(pause_s) is not None
            pause_s = self._every_s
            if not is_our_turn:
                is_first = True
                continue
            try:
                if is_first or await self._link.do("ZCARD", self._keys.nodes()) > 1:
                    await self.sync()
                is_first = False
            except RETRIABLE_ERRORS as error:
                self._link.outage_log.log_failure(error)
            except errors.CatalogueUnavailable as error:
                self._log.debug("catalogue_not_followed", error=str(error))  # the archivist complains loudly enough

    async def sync(self) -> None:
        """One round."""
        live, closed = await self._sessions.open_and_closed()
        for ref in (*live, *closed):
            self._note(ref.identity)
        for row in await self._catalogue.unfinished():
            self._note(row.identity)
        await self._end_again()
