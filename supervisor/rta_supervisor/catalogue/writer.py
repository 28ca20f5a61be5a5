"""Writes what changed about sessions into the catalogue, off the hot path, and lets closed ones go after that."""

from collections.abc import Sequence
from typing import Final

import anyio

from rta_supervisor.catalogue.model import Catalogue, Row
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes.time_sync import now_ms
from rta_supervisor.retention.archive_queue import NO_POSITION, Waiting
from rta_supervisor.session.model import Ref, Shown
from rta_supervisor.session.store import Sessions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link, Trouble
from rta_wire import errors

PAGE: Final = 500


class Archivist:
    """Collects the names of sessions that changed; what it writes is what Redis says at that moment."""

    def __init__(self, link: Link, sessions: Sessions, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._keys = config.keys
        self._config = config.catalogue
        self._session = config.session
        self._is_archive_required = config.archive.required
        self._changed: set[str] = set()
        self._progress: dict[Ref, bytes] = {}
        self._is_failing = False
        self._log = log.get()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.catalogue
        self._session = config.session
        self._is_archive_required = config.archive.required

    def note(self, identity: str) -> None:
        """A session has changed."""
        self._changed.add(identity)

    def note_progress(self, shown: Sequence[Shown]) -> None:
        """Sessions have come so far. Kept here until it is written: Redis may forget it sooner."""
        self._progress.update(shown)

    async def run(self) -> None:
        """Until cancelled."""
        due_s = 0.0
        while True:
            loop_watch.step(self._config.flush_s)
            await anyio.sleep(self._config.flush_s)
            await self.flush_changes()
            if anyio.current_time() >= due_s:
                due_s = anyio.current_time() + self._config.progress_flush_s
                await self.flush_progress()

    async def flush(self) -> None:
        """Write everything that is waiting."""
        await self.flush_changes()
        await self.flush_progress()

    async def flush_progress(self) -> None:
        """Write how far sessions have come."""
        waiting, self._progress = self._progress, {}
        rows = [(ref.identity, ref.stream_session_id, totals) for ref, totals in waiting.items()]
        try:
            await self._catalogue.save_progress(rows, at_ms=now_ms())
        except errors.CatalogueUnavailable as error:
            self._progress = waiting | self._progress
            self._complain(error)

    async def flush_changes(self) -> None:
        """Write what changed. What can't be written now is kept for the next time, and nothing is let go."""
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
        """The catalogue has them: from here on they may expire, or wait for the archive first. One that changed in
        between is put away anew. Who waits is listed before it leaves the index: trimming looks there, then here."""
        if not closed:
            return
        held_ttl_s = self._session.open_ttl_s if self._is_archive_required else 0
        ttls = {"ttl_s": self._session.closed_ttl_s, "held_ttl_s": held_ttl_s}
        scores, *answers = await self._link.do_all(
            [
                ("ZMSCORE", self._keys.index(), *(one.identity for one in closed)),
                *(commands.put_away(self._keys, one.identity, one.version, **ttls) for one in closed),
            ]
        )
        found = [
            (one, score, outcome.decode(), position.decode())
            for one, score, (outcome, position) in zip(closed, scores, answers, strict=True)
            if outcome != b"changed"
        ]
        words = [word for one, _, *how in found for word in _listed(one, *how)]
        if words:
            # Once: a supervisor that stood still and comes late changes nothing.
            await self._link.do("ZADD", self._keys.unarchived(), "NX", *words)
        if safe := [(one.identity, score) for one, score, *_ in found if score is not None]:
            await self._link.do(*commands.forget(self._keys.index(), safe))

    def _complain(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.error("catalogue_behind", error=str(error), sessions=len(self._changed))


def _listed(row: Row, outcome: str, position: str) -> tuple[commands.Word, ...]:
    """A session in the list of those that the archive does not have, or nothing where it has it."""
    if outcome == "archived":
        return ()
    begin = NO_POSITION if outcome == "stale" else position
    return now_ms(), Waiting(row.stream_session_id, row.stream, begin, row.identity).member
