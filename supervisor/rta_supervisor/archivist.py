"""Writes what changed about sessions into the catalogue, off the hot path, and lets closed ones go after that."""

from typing import Final

import anyio

from rta_supervisor import calls, log, progress, settings
from rta_supervisor.catalogue import Catalogue, Row
from rta_supervisor.link import Link, Trouble
from rta_supervisor.sessions import Sessions
from rta_wire import errors

PAGE: Final = 500


class Archivist:
    """Collects the names of sessions that changed; what it writes is what Redis says at that moment."""

    def __init__(self, link: Link, sessions: Sessions, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._keys = config.keys
        self._flush_s = config.catalogue.flush_s
        self._closed_ttl_s = config.session.closed_ttl_s
        self._changed: set[str] = set()
        self._is_failing = False
        self._log = log.get()

    def reconfigure(self, config: settings.Settings) -> None:
        self._flush_s = config.catalogue.flush_s
        self._closed_ttl_s = config.session.closed_ttl_s

    def note(self, identity: str) -> None:
        """A session has changed."""
        self._changed.add(identity)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            progress.step(self._flush_s)
            await anyio.sleep(self._flush_s)
            await self.flush()

    async def flush(self) -> None:
        """Write what is waiting. What can't be written now is kept for the next time, and nothing is let go."""
        while self._changed:
            page = {self._changed.pop() for _ in range(min(PAGE, len(self._changed)))}
            try:
                await self._put_away(sorted(page))
                page = set()
            except (*Trouble, errors.CatalogueUnavailable) as error:
                self._complain(error)
                return
            finally:
                self._changed |= page
            if self._is_failing:
                self._is_failing = False
                self._log.info("catalogue_caught_up")

    async def _put_away(self, identities: list[str]) -> None:
        rows = await self._sessions.rows(identities)
        await self._catalogue.save(rows)
        await self._let_go([row for row in rows if row.state.is_closed])

    async def _let_go(self, closed: list[Row]) -> None:
        """The catalogue has them: from here on they may expire. One that changed in between is put away anew."""
        calls_ = [calls.let_go(self._keys, one.identity, one.version, ttl_s=self._closed_ttl_s) for one in closed]
        answers = await self._link.do_all(calls_)
        safe = [one.identity for one, answer in zip(closed, answers, strict=True) if answer]
        if safe:
            await self._link.do("ZREM", self._keys.index(), *safe)

    def _complain(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.error("catalogue_behind", error=str(error), sessions=len(self._changed))
