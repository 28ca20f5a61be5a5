"""Brings one session in Redis up to what the catalogue and recent reports know of it: creates it anew, ends it, or
notes that data of it is lost. Which sessions need that is decided by the caller.
"""

from collections.abc import Mapping

from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.recovery import completeness
from rta_supervisor.session import config_bindings, state_machine
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.opening.external_ids import ExternalId
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.transport.paging import PAGE_SIZE, pages
from rta_wire import session
from rta_wire.control.totals import Totals


class SessionRestorer:
    """Restores sessions. Repeating it is harmless, and several supervisors may do it at once."""

    def __init__(self, sessions: SessionStore, service: SessionService, recent_reports: RecentReports) -> None:
        self._sessions = sessions
        self._service = service
        self._effects = service.effects
        self._recent_reports = recent_reports
        self._log = log.get()

    async def restore(self, row: CatalogueRow, *, external_id: str = "") -> bool:
        """Create a session that Redis lost, with the ids that it had, and publish it. Whether it was lost.

        One that is there gets the JSON of the catalogue where that is newer.
        """
        ref = SessionRef(row.identity, row.stream, row.stream_session_id)
        lost = SessionRecord(
            ref,
            row.state,
            row.principal,
            version=max(row.version, await self._sessions.published_version(ref)) + 1,
            opened_ms=row.opened_ms,
            document=session.dump(session.parse(row.json)),
            external_id=external_id,
            config=config_bindings.published_in(row.json),
        )
        position = await self._sessions.last_entry_id(row.stream)
        created = await self._effects.create(lost, position=position, at_ms=now_ms())
        record = created or await self._sessions.read(row.identity)
        if record is None or record.ref != ref or record.state.is_closed:
            return False
        if record.version < row.version:
            await self._effects.replace_json(record, row.json, row.version)
            record = await self._sessions.read(row.identity) or record
        if record.external_id:
            await self._service.external_ids.confirm(ExternalId(record.principal, record.external_id), record)
        await self._effects.publish_opening(record)
        if created is not None:
            self._log.warning("session_restored", session=row.identity, stream=row.stream, id=row.stream_session_id)
        return created is not None

    async def close_as_in_catalogue(self, record: SessionRecord, row: CatalogueRow) -> None:
        """Write the JSON of the catalogue to a session, and end it as it has ended there."""
        await self._effects.replace_json(record, row.json, row.version)
        if not record.state.is_closed:
            record = await self._sessions.read(row.identity) or record
            await self._service.end(record, state_machine.CLOSING_EVENTS[row.state])

    async def mark_loss(self, row: CatalogueRow) -> bool:
        """Note a loss where Redis has less of an open session than was reported to the catalogue. Whether data is
        lost."""
        record = await self._sessions.read(row.identity)
        if record is None or record.ref.stream_session_id != row.stream_session_id or record.state.is_closed:
            return False
        await self._sessions.fold_marks(record.ref)
        record = await self._sessions.read(row.identity) or record
        if record.lost_data or record.totals.missing_from(row.totals) is None:
            return record.lost_data
        await self._note_loss(record, samples_reported=row.totals.samples)
        return True

    async def mark_recent_losses(self) -> int:
        """Note a loss where Redis has less of an open session than was reported lately, which the catalogue may not
        have. Gives how many sessions."""
        count = 0
        for page in pages(list(self._recent_reports.latest_totals().items()), PAGE_SIZE):
            records = await self._sessions.read_all([identity for (identity, _), _ in page])
            for ((_, stream_session_id), units), record in zip(page, records, strict=True):
                if isinstance(record, SessionRecord) and record.ref.stream_session_id == stream_session_id:
                    count += await self._mark_recent_loss(record, units)
        return count

    async def _mark_recent_loss(self, record: SessionRecord, units: Mapping[str, Totals]) -> bool:
        if not await self._misses_reported(record, units):
            return False
        # Reports may be lost while the data is there: the marks say what stands in the stream.
        await self._sessions.fold_marks(record.ref)
        record = await self._sessions.read(record.ref.identity) or record
        if not await self._misses_reported(record, units):
            return False
        await self._note_loss(record, samples_reported=sum(totals.samples for totals in units.values()))
        return True

    async def _misses_reported(self, record: SessionRecord, units: Mapping[str, Totals]) -> bool:
        folded = await self._sessions.unit_totals(record.ref.identity, list(units))
        return completeness.misses_reported(record, folded, units)

    async def _note_loss(self, record: SessionRecord, *, samples_reported: int) -> None:
        await self._sessions.note_loss(record.ref)
        self._log.error(
            "session_lost_data",
            session=record.ref.identity,
            samples_reported=samples_reported,
            samples_found=record.totals.samples,
        )
