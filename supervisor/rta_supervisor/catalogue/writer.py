"""Writes what changed about sessions into the catalogue, off the hot path, and lets closed ones go after that."""

from collections.abc import Sequence
from typing import Final

import anyio

from rta_supervisor.catalogue.model import Catalogue, CatalogueRow
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import functions as retention_functions
from rta_supervisor.retention.archive_queue import JSON_ONLY, UnarchivedSession
from rta_supervisor.session import model as session_model
from rta_supervisor.session.model import Published, SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.session import State

PAGE: Final = 500
ROW_FIELDS: Final = (
    keys.STREAM_NAME,
    keys.STREAM_SESSION_ID,
    keys.PRINCIPAL,
    keys.STATE,
    keys.VERSION,
    keys.OPENED_MS,
    keys.TOTALS,
)


class CatalogueWriter:
    """Collects the names of sessions that changed; what it writes is what Redis says at that moment."""

    def __init__(self, link: Link, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._catalogue = catalogue
        self._keys = config.keys
        self._config = config
        self._changed: set[str] = set()
        self._progress: dict[SessionRef, bytes] = {}
        self._progress_due_s = 0.0
        self._is_failing = False
        self._log = log.get()

    def mark_changed(self, identity: str) -> None:
        """A session has changed."""
        self._changed.add(identity)

    def record_progress(self, published: Sequence[Published]) -> None:
        """Sessions have come so far. Kept here until it is written: Redis may forget it sooner."""
        self._progress.update(published)

    async def run(self) -> None:
        """Write what changed every `flush_s` and the progress every `progress_flush_s`, until cancelled."""
        await periodic.every(lambda: self._config.catalogue.flush_s, self._flush_due, self._link.outage_log)

    async def _flush_due(self) -> None:
        await self.flush_changes()
        if anyio.current_time() >= self._progress_due_s:
            self._progress_due_s = anyio.current_time() + self._config.catalogue.progress_flush_s
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
            self._log_failure(error)

    async def flush_changes(self) -> None:
        """Write what changed. What can't be written now is kept for the next time, and nothing is let go."""
        while self._changed:
            page = {self._changed.pop() for _ in range(min(PAGE, len(self._changed)))}
            try:
                await self._write_page(sorted(page))
                page = set()
            except (*RETRIABLE_ERRORS, errors.CatalogueUnavailable) as error:
                self._log_failure(error)
                return
            finally:
                self._changed |= page
            if self._is_failing:
                self._is_failing = False
                self._log.info("catalogue_caught_up")

    async def _write_page(self, identities: list[str]) -> None:
        rows = await self._rows(identities)
        await self._catalogue.save(rows)
        await self._release_closed([row for row in rows if row.state.is_closed])

    async def _rows(self, identities: Sequence[str]) -> list[CatalogueRow]:
        """What the catalogue keeps of those that there are. Less than all that is known, and quicker to read."""
        answers = await self._link.do_all(
            [
                call
                for identity in identities
                for call in (
                    ("HMGET", self._keys.session_state(identity), *ROW_FIELDS),
                    ("HMGET", self._keys.session(identity), keys.JSON, keys.STREAM_POSITION),
                )
            ]
        )
        at_ms = now_ms()
        found = zip(identities, answers[::2], answers[1::2], strict=True)
        return [parse_row(identity, fields, shown, at_ms) for identity, fields, shown in found if fields[0] is not None]

    async def _release_closed(self, closed: list[CatalogueRow]) -> None:
        """The catalogue has them: from here on they may expire, or wait for the archive first. One that changed in
        between is put away anew. Who waits is listed before it leaves the index: trimming looks there, then here."""
        if not closed:
            return
        held_ttl_s = self._config.session.open_ttl_s if self._config.archive.required else 0
        ttls = {"ttl_s": self._config.session.closed_ttl_s, "held_ttl_s": held_ttl_s}
        scores, *answers = await self._link.do_all(
            [
                ("ZMSCORE", self._keys.session_index(), *(one.identity for one in closed)),
                *(retention_functions.release_closed(self._keys, one.identity, one.version, **ttls) for one in closed),
            ]
        )
        found = [
            (one, score, outcome.decode(), position.decode())
            for one, score, (outcome, position) in zip(closed, scores, answers, strict=True)
            if outcome != b"changed"
        ]
        words = [word for one, _, *how in found for word in _queue_member(one, *how)]
        if words:
            # Once: a supervisor that stood still and comes late changes nothing.
            await self._link.do("ZADD", self._keys.unarchived(), "NX", *words)
        if safe := [(one.identity, score) for one, score, *_ in found if score is not None]:
            await self._link.do(*retention_functions.remove_if_unchanged(self._keys.session_index(), safe))

    def _log_failure(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.error("catalogue_behind", error=str(error), sessions=len(self._changed))


def _queue_member(row: CatalogueRow, outcome: str, position: str) -> tuple[commands.Argument, ...]:
    """A session in the list of those that the archive does not have, or nothing where it has it."""
    if outcome == "archived":
        return ()
    begin = JSON_ONLY if outcome == "stale" else position
    return now_ms(), UnarchivedSession(row.stream_session_id, row.stream, begin, row.identity).member


def parse_row(identity: str, fields: Sequence[bytes | None], shown: Sequence[bytes | None], at_ms: int) -> CatalogueRow:
    """`shown`: JSON and position in the stream, as readers have them."""
    document, position = shown
    stream, number, principal, state, version, opened_ms, totals = fields
    assert stream is not None
    assert principal is not None
    assert state is not None
    return CatalogueRow(
        identity=identity,
        stream=stream.decode(),
        stream_session_id=int(number or 0),
        principal=principal.decode(),
        state=State(state.decode()),
        json=(document or b"").decode(),
        totals=session_model.parse_totals(totals),
        version=int(version or 0),
        opened_ms=int(opened_ms or 0),
        updated_ms=at_ms,
        position=position.decode() if position else entry_ids.MIN,
    )
