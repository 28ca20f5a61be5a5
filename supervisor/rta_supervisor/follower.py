"""Keeps the catalogue of this host in step with the sessions that supervisors on other hosts serve.

Each host has a catalogue of its own. One that does not hear of an end would bring the session back after a loss.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from rta_supervisor import log, progress, settings
from rta_supervisor.catalogue import Catalogue
from rta_supervisor.link import Link, Trouble
from rta_supervisor.sessions import Sessions
from rta_wire import errors

FOLLOW_S: Final = 30.0
FOLLOWS_PER_LIFE: Final = 4
"""A closed session has to be seen before it expires."""


class Follower:
    """Looks at all sessions now and then, while there are other supervisors."""

    def __init__(
        self,
        link: Link,
        sessions: Sessions,
        catalogue: Catalogue,
        config: settings.Settings,
        *,
        note: Callable[[str], None],
        end_again: Callable[[], Awaitable[None]],
    ) -> None:
        """`note`: told of every session whose row may be old. `end_again`: ends what only another host thinks open."""
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._keys = config.keys
        self._every_s = min(FOLLOW_S, config.session.closed_ttl_s / FOLLOWS_PER_LIFE)
        self._note = note
        self._end_again = end_again
        self._log = log.get()

    async def run(self) -> None:
        """Until cancelled. First of all what happened while we were away."""
        is_first = True
        while True:
            progress.step(self._every_s)
            try:
                if is_first or await self._link.do("ZCARD", self._keys.nodes()) > 1:
                    await self.follow()
                is_first = False
            except Trouble as error:
                self._link.complaints.note(error)
            except errors.CatalogueUnavailable as error:
                self._log.debug("catalogue_not_followed", error=str(error))  # the archivist complains loudly enough
            await anyio.sleep(self._every_s)

    async def follow(self) -> None:
        """One round."""
        for row in await self._catalogue.unfinished():
            self._note(row.identity)
        live, closed = await self._sessions.live()
        for ref in (*live, *closed):
            self._note(ref.identity)
        await self._end_again()
