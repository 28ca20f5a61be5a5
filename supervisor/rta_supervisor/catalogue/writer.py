"""Writes changes of sessions to the catalogue, off the hot path, and lets closed sessions expire after that."""

from collections.abc import Sequence
from typing import Final

import anyio

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueExternalId, CatalogueRow
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention.unarchived_session import JSON_ONLY, UnarchivedSession, first_unarchived
from rta_supervisor.session import model as session_model
from rta_supervisor.session.model import Published, SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys, redis_errors
from rta_wire.session import State

PAGE_ROWS: Final = 500
ROW_FIELDS: Final = (
    keys.STREAM_NAME,
    keys.STREAM_SESSION_ID,
    keys.PRINCIPAL,
    keys.STATE,
    keys.VERSION,
    keys.OPENED_MS,
    keys.TOTALS,
    keys.EXTERNAL_ID,
)


class CatalogueWriter:
    """Collects identities of sessions that changed, and writes what is in Redis about them at that time."""

    def __init__(self, link: Link, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._catalogue = catalogue
        self._keys = config.keys
        self._config = config
        self._changed: set[str] = set()
        self._progress: dict[SessionRef, bytes] = {}
        self._progress_due_s = 0.0
        self._is_failing = False
        self._writing_changes = anyio.Lock()
        self._log = log.get()

    @property
    def is_behind(self) -> bool:
        """Whether the last flush could not be completed."""
        return self._is_failing

    def mark_changed(self, identity: str) -> None:
        """Have the row of a session written."""
        self._changed.add(identity)

    def record_progress(self, published: Sequence[Published]) -> None:
        """Have totals of sessions written. They are kept in memory until then: Redis may lose them sooner."""
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
        """Write the totals of sessions."""
        waiting, self._progress = self._progress, {}
        rows = [(ref.identity, ref.stream_session_id, totals) for ref, totals in waiting.items()]
        try:
            await self._catalogue.save_progress(rows, at_ms=now_ms())
        except errors.CatalogueUnavailable as error:
            self._progress = waiting | self._progress
            self._log_failure(error)

    async def flush_changes(self) -> None:
        """Write the rows of sessions that changed. What can't be written now is kept for the next time, and does not
        expire before that."""
        # One at a time: whoever returns from here finds everything written that changed before.
        async with self._writing_changes:
            while self._changed:
                page = {self._changed.pop() for _ in range(min(PAGE_ROWS, len(self._changed)))}
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
        rows, external_ids = await self._read_rows(identities)
        await self._catalogue.save_external_ids(external_ids)
        await self._catalogue.save(rows)
        await self._release_closed([row for row in rows if row.state.is_closed])

    async def _read_rows(self, identities: Sequence[str]) -> tuple[list[CatalogueRow], list[CatalogueExternalId]]:
        """The rows and the external ids of sessions that exist, from no more fields than they have."""
        replies = await self._link.try_all(
            [
                command
                for identity in identities
                for command in (
                    ("HMGET", self._keys.session_state(identity), *ROW_FIELDS),
                    ("HMGET", self._keys.session(identity), keys.JSON, keys.STREAM_POSITION),
                )
            ]
        )
        at_ms = now_ms()
        rows: list[CatalogueRow] = []
        external_ids: list[CatalogueExternalId] = []
        for identity, state_reply, hash_fields in zip(identities, replies[::2], replies[1::2], strict=True):
            if error := next((reply for reply in (state_reply, hash_fields) if isinstance(reply, Exception)), None):
                # Somebody has put something else in place of a hash: that keeps no other session from being written.
                if not is_key_specific(error):
                    raise classify(error)
                self._log.error("session_spoilt", session=identity, reason=redis_errors.first_line(error))
                continue
            *state_fields, external_id = state_reply
            if state_fields[0] is None:
                continue
            rows.append(row := row_from_redis(identity, state_fields, hash_fields, at_ms))
            if external_id:
                external_ids.append(CatalogueExternalId(external_id.decode(), row.principal, *row.key))
        return rows, external_ids

    async def _release_closed(self, rows: list[CatalogueRow]) -> None:
        """Let closed sessions expire that the catalogue has, or keep them until the archive has them.

        A session that has changed since its row was read is left for its next row. A session is listed as unarchived
        before it leaves the index: trimming reads the index first and the set `unarchived` second.
        """
        if not rows:
            return
        unarchived_ttl_s = self._config.session.open_ttl_s if self._config.archive.required else 0
        ttls = {"ttl_s": self._config.session.closed_ttl_s, "unarchived_ttl_s": unarchived_ttl_s}
        scores, *replies = await self._link.do_all(
            [
                ("ZMSCORE", self._keys.session_index(), *(row.identity for row in rows)),
                *(retention_functions.release_closed(self._keys, row.identity, row.version, **ttls) for row in rows),
            ]
        )
        # Fixed since the session was closed: parts are noted for open ones only.
        archived = await self._link.do_all(
            [("HGET", self._keys.session_state(row.identity), keys.ARCHIVED_UNTIL) for row in rows]
        )
        released = [
            (row, score, outcome.decode(), first_unarchived(position, until))
            for row, score, (outcome, position), until in zip(rows, scores, replies, archived, strict=True)
            if outcome != b"changed"
        ]
        members = [
            _unarchived(row, outcome, position).member
            for row, _, outcome, position in released
            if outcome != "archived"
        ]
        if members:
            # Only new members: a supervisor that was frozen and comes late changes nothing.
            arguments = [argument for member in members for argument in (now_ms(), member)]
            await self._link.do("ZADD", self._keys.unarchived(), "NX", *arguments)
        if indexed := [(row.identity, score) for row, score, *_ in released if score is not None]:
            await self._link.do_all(retention_functions.remove_unchanged(self._keys.session_index(), indexed))

    def _log_failure(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.error("catalogue_behind", error=str(error), sessions=len(self._changed))


def _unarchived(row: CatalogueRow, outcome: str, position: str) -> UnarchivedSession:
    """A released session as one that the archive does not have. Outcome `stale`: the archive has older Session JSON."""
    begin = JSON_ONLY if outcome == "stale" else position
    return UnarchivedSession(row.stream_session_id, row.stream, begin, row.identity)


def row_from_redis(
    identity: str, state_fields: Sequence[bytes | None], hash_fields: Sequence[bytes | None], at_ms: int
) -> CatalogueRow:
    """The row of a session as it is in Redis.

    `state_fields`: the values of `ROW_FIELDS`, without the external id. `hash_fields`: Session JSON and position in the
    stream.
    """
    document, position = hash_fields
    stream, number, principal, state, version, opened_ms, totals = state_fields
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
