"""Restores Redis after it lost data: server functions, consumer groups, the counter of session ids, and the sessions
that were open. Watches for such a loss.

Repeating it is harmless, and several supervisors may do it at once: each step only adds what is missing.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.recovery import completeness
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.session import id_counter
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader, scanning
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, map_pages, pages
from rta_wire import errors, keys, redis_url
from rta_wire.session import State
from rta_wire.stream import cold_index

AWAY_PAUSE_S: Final = 0.2
"""Between two checks while Redis is away: a loss is found soon after Redis, or its successor, is back."""

TAILS_PER_CALL: Final = 50
"""Last entries of streams in one round trip: writers choose how large they are."""

SESSION_ID_MAX_DIGITS: Final = 12
"""Of a stream session id in a stream that is believed. Writers write it, and a very high one would leave no ids."""


class RecoverySteps(NamedTuple):
    """What other packages do when everything is restored."""

    prepare: Sequence[Callable[[], Awaitable[None]]] = ()
    """Before sessions are restored."""

    complete: Sequence[Callable[[], Awaitable[None]]] = ()
    """After that."""


class Recovery:
    """Restores Redis at start and after a loss, and checks for a loss meanwhile."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        restorer: SessionRestorer,
        catalogue: Catalogue,
        *,
        config: settings.Settings,
        steps: RecoverySteps,
        on_outage: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_outage`: called each time that Redis can't be checked for a loss, because it is away or full."""
        self._link = link
        self._sessions = sessions
        self._restorer = restorer
        self._catalogue = catalogue
        self._config = config
        self._steps = steps
        self._on_outage = on_outage
        self._lock = anyio.Lock()
        self._checking = anyio.Lock()
        self._checked_s = 0.0
        """When the last check for a loss began."""
        self._lost_ms = 0
        """When the last loss was found."""
        self._log = log.get()

    async def run(self, detector: LossDetector, every_s: float) -> None:
        """Check for lost data until cancelled, more often while Redis is away."""
        is_away = False

        async def check() -> None:
            nonlocal is_away
            is_away = True
            try:
                await self._check(detector)
            except RETRIABLE_ERRORS:
                self._on_outage()
                raise
            is_away = False
            self._link.outage_log.log_recovery()

        await periodic.every(
            lambda: min(every_s, AWAY_PAUSE_S) if is_away else every_s, check, self._link.outage_log, at_once=True
        )

    async def has_lost_since(self, detector: LossDetector, at_ms: int) -> bool:
        """Whether Redis lost data since a time, as far as the detector can tell. What is lost is restored by then."""
        await self._check(detector)
        return self._lost_ms >= at_ms

    async def _check(self, detector: LossDetector) -> None:
        """Restore everything if Redis lost data. Those who ask while somebody checks share the next check."""
        asked_s = anyio.current_time()
        async with self._checking:
            if self._checked_s >= asked_s:
                return
            began_s = anyio.current_time()
            if reason := await detector.find_loss():
                await self.restore_after_loss(reason)
            self._checked_s = began_s

    async def restore_after_loss(self, reason: str) -> None:
        """Restore everything after a loss, and count and log it."""
        async with self._lock:
            self._lost_ms = now_ms()
            counters.counts.data_losses += 1
            self._log.error("redis_lost_data", reason=reason)
            restored, lossy = await self.restore()
            counters.counts.sessions_restored += restored
            counters.counts.sessions_with_loss += lossy
            self._log.warning("redis_made_whole", sessions_restored=restored, sessions_with_loss=lossy)

    async def restore(self, *, is_start: bool = False) -> tuple[int, int]:
        """Restore everything that has to be there. Gives how many sessions were restored and how many miss data."""
        await function_loader.load(self._link)
        for prepare in self._steps.prepare:
            await prepare()
        try:
            last_id = await id_counter.read_last_id(self._link) if is_start else 0
            await self._raise_floor(await self._catalogue.highest_id())
            await self.close_reopened()
            rows = await self._catalogue.unfinished()
            external_ids = {row.key: row.external_id for row in await self._catalogue.unfinished_external_ids()}
        except errors.CatalogueUnavailable as error:
            self._raise_if_required(error)
            await self._raise_floor(0)
            rows, external_ids = [], {}
        # In a Cluster sessions and the counter of ids live on different servers: one may be lost without the other.
        can_tell = (
            is_start and not self._catalogue.is_shared and self._link.address.mode is not redis_url.RedisMode.CLUSTER
        )
        restored = lossy = 0
        for page in pages(rows, PAGE_SIZE):
            for row in await self._incomplete(page, ended_through=last_id if can_tell else 0):
                loop_watch.report_alive()
                try:
                    restored += await self._restorer.restore(row, external_id=external_ids.get(row.key, ""))
                    lossy += await self._restorer.mark_loss(row)
                except (errors.BadSessionJson, errors.SpoiltKey, redis.exceptions.ResponseError) as error:
                    # One spoilt row keeps no other session from being restored.
                    if isinstance(error, redis.exceptions.ResponseError) and not is_key_specific(error):
                        raise
                    self._log.error("session_not_restored", session=row.identity, reason=str(error))
        lossy += await self._restorer.mark_recent_losses()
        for complete in self._steps.complete:
            await complete()
        return restored, lossy

    async def close_reopened(self) -> None:
        """End sessions that Redis has as open, from an old snapshot, and the catalogue as closed: closed is final."""
        open_refs, _ = await self._sessions.open_and_closed()
        rows: dict[tuple[str, int], CatalogueRow] = {}
        for page in pages(open_refs, PAGE_SIZE):
            rows |= {row.key: row for row in await self._catalogue.closed([ref.identity for ref in page])}
        for ref in open_refs if rows else ():
            if (row := rows.get((ref.identity, ref.stream_session_id))) is None:
                continue
            try:
                if (record := await self._sessions.read(ref.identity)) is not None and not record.state.is_closed:
                    await self._restorer.close_as_in_catalogue(record, row)
            except (errors.SpoiltKey, redis.exceptions.ResponseError) as error:
                self._sessions.log_spoilt_or_raise(ref.identity, error)

    async def _incomplete(self, rows: Sequence[CatalogueRow], *, ended_through: int) -> list[CatalogueRow]:
        """Sessions of which Redis has less than the catalogue: usually none of many.

        Other supervisors may have ended sessions while this one was not running, and the sessions expired. A Redis that
        gave out the id of a session, one through `ended_through`, and does not have the session has not lost it: with
        the session it would have lost the counter of ids.
        """
        records = await self._sessions.read_all([row.identity for row in rows])
        are_registered = await self._sessions.are_registered(
            [SessionRef(row.identity, row.stream, row.stream_session_id) for row in rows]
        )
        incomplete: list[CatalogueRow] = []
        ended: list[CatalogueRow] = []
        for row, record, is_registered in zip(rows, records, are_registered, strict=True):
            if isinstance(record, errors.SpoiltKey):
                continue
            if record is None and row.stream_session_id <= ended_through:
                ended.append(row)
            elif not (is_registered and completeness.is_complete(record, row)):
                incomplete.append(row)
        await self._save_ended(ended)
        return incomplete

    async def _save_ended(self, rows: Sequence[CatalogueRow]) -> None:
        """Write to the catalogue that sessions have ended, which other supervisors ended."""
        for row in rows:
            self._log.warning("session_ended_elsewhere", session=row.identity, id=row.stream_session_id)
        try:
            # Others may know how they really ended, and have published it.
            await self._catalogue.publications.skip(
                [(row.identity, row.stream_session_id, row.version) for row in rows]
            )
            await self._catalogue.save([msgspec.structs.replace(row, state=State.ABANDONED) for row in rows])
        except errors.CatalogueUnavailable as error:
            self._raise_if_required(error)

    def _raise_if_required(self, error: errors.CatalogueUnavailable) -> None:
        if self._config.catalogue.required:
            raise error
        self._log.error("catalogue_unavailable", error=str(error))

    async def _raise_floor(self, floor: int) -> None:
        """Raise the counter of session ids to the highest that was ever used: ids never repeat, not even those of
        sessions of which only entries in streams are left."""
        streams = [raw.decode() for raw in await scanning.read_set(self._link, keys.STREAMS)]
        tails = await map_pages(
            streams,
            lambda page: self._link.try_all([("XREVRANGE", keys.stream(name), "+", "-", "COUNT", 1) for name in page]),
            size=TAILS_PER_CALL,
        )
        used = [_session_id_in(stream, tail) for stream, tail in zip(streams, tails, strict=True)]
        highest = max([floor, await self._highest_cold_session_id(), *used])
        try:
            await self._link.do(*session_functions.raise_floor(highest))
        except redis.exceptions.ResponseError as error:
            # A counter that is no string: a start refuses it, and so does each open while sessions go on.
            if not is_key_specific(error):
                raise

    async def _highest_cold_session_id(self) -> int:
        """The highest stream session id in the index of cold streams."""
        extents = await scanning.read_hash(self._link, self._config.keys.cold_index())
        highest = 0
        for stream, raw in extents.items():
            try:
                extent = cold_index.parse(raw)
            except errors.BadBatch as error:
                self._log.error("stream_spoilt", stream=stream.decode(), error=str(error))
                continue
            highest = max(highest, extent.number if extent is not None else 0)
        return highest


def _session_id_in(stream: str, tail: Any) -> int:
    """The stream session id in the last entry of a stream; 0 where it is not believed. `tail`: the reply of Redis."""
    if isinstance(tail, Exception):
        if not is_key_specific(tail):
            raise classify(tail)
        log.get().error("stream_spoilt", stream=stream, error=str(tail))
        return 0
    for _, (name, value, *_) in tail:
        if name == keys.ENTRY_ID and value.isdigit() and len(value) <= SESSION_ID_MAX_DIGITS:
            return int(value)
    return 0
