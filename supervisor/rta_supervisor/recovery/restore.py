"""Makes Redis whole again after it lost data: functions, groups, the floor of ids, and the sessions that were open.

Repeating it is harmless, and several supervisors may do it at once: each step only adds what is missing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.catalogue.model import Catalogue, CatalogueRow
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.session import functions as session_functions
from rta_supervisor.session import state_machine
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import functions as transport_functions
from rta_supervisor.transport import paging
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import pages
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys, redis_url, session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from rta_wire.stream import cold_index

PAGE: Final = 500

AWAY_PAUSE_S: Final = 0.2
"""Between two looks while Redis is away: what it lost is known soon after it, or its successor, is there."""

SESSION_ID_MAX_DIGITS: Final = 12
"""Of stream session ids that are believed. A higher one in a stream would leave no ids for others."""


class Recovery:
    """What is done at start and after a loss."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        service: SessionService,
        catalogue: Catalogue,
        *,
        config: settings.Settings,
        prepare: Sequence[Callable[[], Awaitable[None]]],
        on_outage: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_outage`: called each time that the counter could not be raised, because Redis is away or full."""
        self._link = link
        self._sessions = sessions
        self._service = service
        self._effects = service.effects
        self._catalogue = catalogue
        self.recent_reports = RecentReports()
        self._config = config
        self._prepare = prepare
        self._on_outage = on_outage
        self._lock = anyio.Lock()
        self._log = log.get()

    async def run(self, detector: LossDetector, every_s: float) -> None:
        """Look for lost data until cancelled, more often while Redis is away."""
        is_away = False

        async def look() -> None:
            nonlocal is_away
            is_away = True
            try:
                if reason := await detector.find_loss():
                    await self.recover(reason)
            except RETRIABLE_ERRORS:
                self._on_outage()
                raise
            is_away = False
            self._link.outage_log.log_recovery()

        await periodic.every(
            lambda: min(every_s, AWAY_PAUSE_S) if is_away else every_s, look, self._link.outage_log, at_once=True
        )

    async def recover(self, reason: str) -> None:
        """Redis lost something: put back what we know."""
        async with self._lock:
            counters.counts.data_losses += 1
            self._log.error("redis_lost_data", reason=reason)
            restored, lossy = await self.restore()
            counters.counts.sessions_restored += restored
            counters.counts.sessions_with_loss += lossy
            self._log.warning("redis_made_whole", sessions_restored=restored, sessions_with_loss=lossy)

    async def restore(self, *, is_start: bool = False) -> tuple[int, int]:
        """Everything that has to be there. Gives how many sessions were put back and how many miss data."""
        await transport_functions.load(self._link)
        for prepare in self._prepare:
            await prepare()
        try:
            last_id = int(await self._link.do("GET", keys.LAST_STREAM_SESSION_ID) or 0)
            await self._raise_floor(await self._catalogue.highest_id())
            await self.close_again()
            rows = await self._catalogue.unfinished()
        except errors.CatalogueUnavailable as error:
            if self._config.catalogue.required:
                raise
            self._log.error("catalogue_unavailable", error=str(error))
            await self._raise_floor(0)
            rows = []
        # In a Cluster sessions and the count of ids live on different servers, and nothing follows.
        can_tell = (
            is_start and not self._catalogue.is_shared and self._link.address.mode is not redis_url.RedisMode.CLUSTER
        )
        restored = lossy = 0
        for page in pages(rows, PAGE):
            for row in await self._incomplete(page, ended_through=last_id if can_tell else 0):
                loop_watch.report_alive()
                try:
                    restored += await self.restore_session(row)
                    lossy += await self.mark_loss(row)
                except (errors.BadSessionJson, redis.exceptions.ResponseError) as error:
                    # One row that somebody spoilt keeps nobody else's session from coming back.
                    if not (isinstance(error, errors.BadSessionJson) or is_key_specific(error)):
                        raise
                    self._log.error("session_not_restored", session=row.identity, reason=str(error))
        return restored, lossy + await self._mark_recent_losses()

    async def _incomplete(self, rows: Sequence[CatalogueRow], *, ended_through: int) -> list[CatalogueRow]:
        """Those of which Redis knows less than the catalogue. On most days there are none, and many sessions.

        While we were away others may have ended sessions, and they expired. A Redis that has given out an id of a
        session, those through `ended_through`, and does not know the session has not lost it: with the session it would
        have lost the count.
        """
        known = await self._sessions.read_all([row.identity for row in rows])
        in_place = await self._sessions.are_registered(
            [SessionRef(row.identity, row.stream, row.stream_session_id) for row in rows]
        )
        torn: list[CatalogueRow] = []
        ended: list[CatalogueRow] = []
        for row, one, is_in_place in zip(rows, known, in_place, strict=True):
            if one is None and row.stream_session_id <= ended_through:
                ended.append(row)
            elif not (is_in_place and _is_whole(row, one)):
                torn.append(row)
        await self._note_ended(ended)
        return torn

    async def _note_ended(self, ended: Sequence[CatalogueRow]) -> None:
        for row in ended:
            self._log.warning("session_ended_elsewhere", session=row.identity, id=row.stream_session_id)
        try:
            await self._catalogue.save([msgspec.structs.replace(row, state=State.ABANDONED) for row in ended])
        except errors.CatalogueUnavailable as error:
            if self._config.catalogue.required:
                raise
            self._log.error("catalogue_unavailable", error=str(error))

    async def _raise_floor(self, floor: int) -> None:
        """Ids never repeat, not even those of sessions that only the streams remember."""
        streams = [raw.decode() for raw in await self._link.do("SMEMBERS", keys.STREAMS)]
        tails = await self._link.try_all([("XREVRANGE", keys.stream(name), "+", "-", "COUNT", 1) for name in streams])
        seen = [_id_in(name, tail) for name, tail in zip(streams, tails, strict=True)]
        await self._link.do(*session_functions.raise_floor(max([floor, await self._highest_cold_session_id(), *seen])))

    async def _highest_cold_session_id(self) -> int:
        """The highest stream session id in the index of cold streams."""
        extents = pairs_to_dict(await self._link.do("HGETALL", self._config.keys.cold_index()))
        highest = 0
        for stream, raw in extents.items():
            try:
                extent = cold_index.parse(raw)
            except errors.BadBatch as error:
                self._log.error("stream_spoilt", stream=stream.decode(), error=str(error))
                continue
            highest = max(highest, extent.number if extent is not None else 0)
        return highest

    async def close_again(self) -> None:
        """Closed is final: what an old snapshot shows as open ends as it has ended."""
        live, _ = await self._sessions.open_and_closed()
        rows: dict[tuple[str, int], CatalogueRow] = {}
        for page in pages(live, PAGE):
            rows |= {row.key: row for row in await self._catalogue.closed([ref.identity for ref in page])}
        for ref in live if rows else ():
            if (row := rows.get((ref.identity, ref.stream_session_id))) is None:
                continue
            if (known := await self._sessions.read(ref.identity)) is not None and not known.state.is_closed:
                try:
                    await self.close_as(known, row)
                except redis.exceptions.ResponseError as error:
                    self._sessions.log_spoilt_or_raise(ref.identity, error)

    async def close_as(self, known: SessionRecord, row: CatalogueRow) -> None:
        """What Redis has as open, or with older JSON, ends as the catalogue says."""
        await self._effects.replace_json(known, row.json, row.version)
        if not known.state.is_closed:
            await self._service.end(
                await self._sessions.read(row.identity) or known, state_machine.CLOSING_EVENTS[row.state]
            )

    async def restore_session(self, row: CatalogueRow) -> bool:
        """A session that Redis forgot, with the id that it had."""
        ref = SessionRef(row.identity, row.stream, row.stream_session_id)
        position = await self._sessions.last_entry_id(row.stream)
        told = await self._sessions.published_version(ref)
        document = session.parse(row.json)
        is_new = await self._effects.create(
            ref,
            document,
            state=row.state,
            principal=row.principal,
            position=position,
            extra_fields={keys.OPENED_MS: row.opened_ms, keys.VERSION: max(row.version, told) + 1},
        )
        known = await self._sessions.read(row.identity)
        if known is None or known.ref != ref or known.state.is_closed:
            return False
        if known.version < row.version:
            await self._effects.replace_json(known, row.json, row.version)
            known = await self._sessions.read(row.identity) or known
        await self._effects.publish_opening(known)
        if is_new:
            self._log.warning("session_restored", session=row.identity, stream=row.stream, id=row.stream_session_id)
        return is_new

    async def mark_loss(self, row: CatalogueRow) -> bool:
        """Whether less stands in Redis than was reported. Such a session can't end as complete."""
        known = await self._sessions.read(row.identity)
        if known is None or known.ref.stream_session_id != row.stream_session_id or known.state.is_closed:
            return False
        await self._sessions.fold_marks(known.ref)
        known = await self._sessions.read(row.identity) or known
        missing = known.totals.missing_from(row.totals)
        if missing is None or known.lost_data:
            return known.lost_data
        await self._note_loss(known, samples_reported=row.totals.samples)
        return True

    async def _mark_recent_losses(self) -> int:
        """The same by what was reported lately and the catalogue may not have yet. Gives how many more miss data."""
        reported = list(self.recent_reports.latest_totals().items())
        count = 0
        for page in paging.pages(reported, PAGE):
            found = await self._sessions.read_all([identity for (identity, _), _ in page])
            for ((_, number), units), known in zip(page, found, strict=True):
                if known is not None and known.ref.stream_session_id == number and _may_miss(known, units):
                    count += await self._mark_missing(known, units)
        return count

    async def _mark_missing(self, known: SessionRecord, units: Mapping[str, Totals]) -> bool:
        """Marks say what stands in the stream, whatever became of the reports."""
        await self._sessions.fold_marks(known.ref)
        known = await self._sessions.read(known.ref.identity) or known
        if not _may_miss(known, units):
            return False
        await self._note_loss(known, samples_reported=sum(totals.samples for totals in units.values()))
        return True

    async def _note_loss(self, known: SessionRecord, *, samples_reported: int) -> None:
        await self._sessions.note_loss(known.ref)
        self._log.error(
            "session_lost_data",
            session=known.ref.identity,
            samples_reported=samples_reported,
            samples_found=known.totals.samples,
        )


def _may_miss(known: SessionRecord, units: Mapping[str, Totals]) -> bool:
    """Whether less is known of an open session than its units have reported, and nobody has noted it."""
    if known.state.is_closed or known.lost_data:
        return False
    found = {unit: Totals.from_words(known.unit_totals[unit].split()) for unit in units if unit in known.unit_totals}
    return any(unit not in found or not found[unit].has_arrived(totals) for unit, totals in units.items())


def _id_in(stream: str, tail: Any) -> int:
    """The number of the session that wrote last to a stream. Writers put it there: not every one is believed."""
    if isinstance(tail, Exception):
        if not is_key_specific(tail):
            raise classify(tail)
        log.get().error("stream_spoilt", stream=stream, error=str(tail))
        return 0
    for _, (name, value, *_) in tail:
        if name == keys.ENTRY_ID and value.isdigit() and len(value) <= SESSION_ID_MAX_DIGITS:
            return int(value)
    return 0


def _is_whole(row: CatalogueRow, known: SessionRecord | None) -> bool:
    """Whether Redis knows as much of a session as the catalogue, or more, or of a later one."""
    if known is None:
        return False
    if known.ref.stream_session_id != row.stream_session_id or known.state.is_closed:
        return True
    return known.version >= row.version and not known.lost_data and known.totals.missing_from(row.totals) is None
