"""The records of sessions in Redis: reads them, folds reports into them, publishes their time ranges, and finds those
that are open, closed or silent. Changes no state of a session: that is left to `service` and `effects`.

Holds nothing itself: any supervisor may serve any session.
"""

import functools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rta_supervisor.diagnostics import counters, principal_limits
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.session import fold_calls, model, server_functions
from rta_supervisor.session.mark_reader import MarkReader
from rta_supervisor.session.model import FoldResult, Published, SessionRecord, SessionRef
from rta_supervisor.session.record_reader import RecordReader
from rta_supervisor.settings import settings
from rta_supervisor.transport import replies, scanning
from rta_supervisor.transport.failures import TemporaryRefusal, classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import map_pages, pages
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys
from rta_wire.control.report_merge import SessionKey
from rta_wire.control.totals import Totals
from rta_wire.session import State

UNCHANGED_ITEMS: Final = 4
"""Items of the reply to a fold that changed nothing; one that did has the growth of the four counts after them."""

CALL_SESSIONS: Final = 50
"""Sessions in one call where all live on one server: a call costs as much as what it does for one session, and Redis
serves nobody else meanwhile."""

SILENT_PAGE: Final = 2000
NAMED_UNITS: Final = 10
SPOILT_MAX_CHARS: Final = 500

NO_TIME_RANGE: Final = b" -"
"""How the totals of a session without data end."""


class MarksResult(NamedTuple):
    """What became of the marks of a session."""

    is_changed: bool
    problem: str
    """Why not all marks are in the totals, as a sentence; empty where all are."""

    fences: tuple[str, ...] = ()
    """Fences of units that are still to be removed."""


class SessionStore(RecordReader):
    """The records of all sessions."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        super().__init__(link, config)
        self._clock = clock
        self.outage_log = link.outage_log
        self._call_sessions = 1 if link.is_cluster else CALL_SESSIONS

    async def fold(
        self, reports: Mapping[SessionKey, Mapping[str, Totals]], *, principal: str | None = None
    ) -> list[FoldResult]:
        """Join reports into sessions. `principal`: the one that reported; None folds into sessions of any principal."""
        parts = fold_calls.split(reports)
        results = await map_pages(parts, functools.partial(self._fold_page, principal))
        if len(parts) == len(reports):
            return results
        by_session: dict[SessionKey, list[FoldResult]] = {}
        for (key, _), result in zip(parts, results, strict=True):
            by_session.setdefault(key, []).append(result)
        return [model.join_fold_results(by_session[key]) for key in reports]

    async def _fold_page(self, principal: str | None, reports: Sequence[fold_calls.UnitReports]) -> list[FoldResult]:
        max_units = self._config.limits.session_units
        answers = await self._link.do_all(
            [
                server_functions.fold(self._keys, page, max_units=max_units, principal=principal)
                for page in fold_calls.group(reports, self._call_sessions)
            ]
        )
        folded = [answer for page in answers for answer in page]
        _count_growth(folded)
        return [
            model.parse_fold_result(
                SessionRef(identity, stream.decode(), stream_session_id),
                model.FoldOutcome(outcome.decode()),
                names,
                surplus,
            )
            for ((identity, stream_session_id), _), (outcome, stream, names, surplus, *_) in zip(
                reports, folded, strict=True
            )
        ]

    def log_spoilt_or_raise(self, identity: str, error: Exception) -> None:
        """Log an error of a session whose keys a writer spoilt: other sessions go on. Raise any other error."""
        if not isinstance(error, errors.SpoiltKey) and not is_key_specific(error):
            raise classify(error)
        self._log.error("session_spoilt", session=identity, reason=str(error))

    async def fold_final_marks(self, ref: SessionRef, marks: Sequence[bytes] | None) -> MarksResult:
        """Fold the marks of a session whose gate is shut, and remove the fences of its units: no writer needs them.

        `marks`: all of them where they are few. The fences of the last page are given back, to be removed with another
        command.
        """
        return await self._fold_marks(ref, MarkReader(self._link, self._config, ref, self._clock, marks), is_final=True)

    async def fold_marks(self, ref: SessionRef) -> MarksResult:
        """Fold what stands in the stream like reports, page by page. Marks are written with the data and never lag
        behind it. What can't be read or folded is noted with the session and logged."""
        return await self._fold_marks(ref, MarkReader(self._link, self._config, ref, self._clock), is_final=False)

    async def _fold_marks(self, ref: SessionRef, reader: MarkReader, *, is_final: bool) -> MarksResult:
        is_changed = False
        surplus = 0
        fences: tuple[str, ...] = ()
        async for page in reader.pages():
            if page.unreadable:
                facts = {"count": len(page.unreadable), "first": page.unreadable[0]}
                self._log.error("marks_unreadable", session=ref.identity, **facts)
            if fences:
                await self._link.do("UNLINK", *fences)
            [result] = await self.fold({(ref.identity, ref.stream_session_id): page.units})
            if units := (*page.implausible_units, *result.implausible_units):
                self._log.error("marks_implausible", session=ref.identity, units=units[:NAMED_UNITS], count=len(units))
            is_changed = is_changed or result.outcome is model.FoldOutcome.CHANGED
            surplus += len(result.surplus_units)
            if is_final:
                fences = tuple(self._keys.fence(ref.stream, ref.stream_session_id, unit) for unit in page.units)
        problem = reader.problem
        if surplus and not problem:
            problem = f"{surplus:,} units beyond limits.session_units = {self._config.limits.session_units}"
        if problem:
            if surplus or reader.is_over_limit:
                principal = await self._link.do("HGET", self._keys.session_state(ref.identity), keys.PRINCIPAL)
                principal_limits.note_reached((principal or b"").decode(), "session_units")
            await self.note_spoilt(ref, reader.key, problem)
        return MarksResult(is_changed, problem, fences)

    async def note_spoilt(self, ref: SessionRef, key: str, problem: str) -> None:
        """Note with a session which of its keys can't be read or written, and log it."""
        self._log.error("session_spoilt", session=ref.identity, key=key, reason=problem)
        text = f"{key}: {problem}"[:SPOILT_MAX_CHARS]
        await self._link.do(*server_functions.note(self._keys, ref, keys.SPOILT, text))

    async def has_unfolded_marks(self, ref: SessionRef) -> bool:
        """Whether data stands in the stream that the totals do not have. Changes nothing."""
        async for page in MarkReader(self._link, self._config, ref, self._clock).pages():
            folded = await self.unit_totals(ref.identity, list(page.units))
            if any(unit not in folded or not folded[unit].dominates(totals) for unit, totals in page.units.items()):
                return True
        return False

    async def remove_large_state(self, record: SessionRecord) -> None:
        """Remove the totals of units of a closed session that has very many: Redis would be busy for long with its
        state when that expires."""
        if record.unit_count <= server_functions.EXPIRING_FIELDS_MAX:
            return
        state = self._keys.session_state(record.ref.identity)
        prefix = keys.UNIT_PREFIX.encode()
        async for page in scanning.scan(self._link, scanning.Collection.HASH, state):
            if fields := [field for field in page[::2] if field.startswith(prefix)]:
                await self._link.do("HDEL", state, *fields)

    async def note_heartbeat(self, refs: Iterable[SessionRef]) -> None:
        """Note that the writers of sessions are alive."""
        at_ms = self._clock()
        scores = [argument for ref in refs for argument in (at_ms, ref.identity)]
        if not scores:
            return
        try:
            await self._link.do("ZADD", self._keys.session_index(), "XX", "GT", *scores)
        except TemporaryRefusal as error:
            # A full Redis refuses it, and messages have to go to make room. No writer counts as silent meanwhile.
            self.outage_log.log_failure(error)

    async def refresh(self, refs: Iterable[SessionRef], *, renewed: Container[SessionRef] = ()) -> list[Published]:
        """Publish new time ranges of open sessions, and renew the lifetimes of the sessions. Gives the totals of each.

        `renewed`: sessions whose lifetime was renewed a moment ago.
        """
        return await map_pages(list(refs), functools.partial(self._refresh_page, renewed))

    async def _refresh_page(self, renewed: Container[SessionRef], refs: Sequence[SessionRef]) -> list[Published]:
        ttl_s = self._config.session.open_ttl_s
        lifetimes_s = [(ref, 0 if ref in renewed else ttl_s) for ref in refs]
        answers = await self._link.do_all(
            [server_functions.refresh(self._keys, page) for page in pages(lifetimes_s, self._call_sessions)]
        )
        totals_texts = (text for page in answers for text in page)
        published = [(ref, text) for ref, text in zip(refs, totals_texts, strict=True) if text]
        await self._publish_time_ranges([(ref, text) for ref, text in published if not text.endswith(NO_TIME_RANGE)])
        return published

    async def _publish_time_ranges(self, published: Sequence[Published]) -> None:
        """Add the time ranges to the streams that do not have them."""
        by_stream: dict[str, list[Published]] = {}
        for ref, totals in published:
            by_stream.setdefault(ref.stream, []).append((ref, totals))
        calls = [(stream, page) for stream, rows in by_stream.items() for page in pages(rows, CALL_SESSIONS)]
        answers = await self._link.try_all(
            [
                server_functions.publish_time_ranges(
                    self._keys,
                    stream,
                    [(ref.stream_session_id, *_time_range(totals)) for ref, totals in page],
                    ttl_s=self._config.session.open_ttl_s,
                )
                for stream, page in calls
            ]
        )
        for (_, page), answer in zip(calls, answers, strict=True):
            outcomes = [answer] * len(page) if isinstance(answer, Exception) else answer
            for (ref, _), outcome in zip(page, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    self.log_spoilt_or_raise(ref.identity, outcome)
                else:
                    counters.counts.ranges_published += outcome

    async def extend_gates(self, refs: Iterable[SessionRef]) -> None:
        """Keep the gates of open sessions from expiring."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all([server_functions.extend_gate(self._keys, ref, ttl_s=ttl_s) for ref in refs])

    async def extend_closed(self, refs: Iterable[SessionRef]) -> None:
        """Keep closed sessions that the catalogue does not have yet from expiring."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all([server_functions.extend_closed(self._keys, ref.identity, ttl_s=ttl_s) for ref in refs])

    async def open_and_closed(self, besides: Container[str] = ()) -> tuple[list[SessionRef], list[SessionRef]]:
        """The sessions in the index but for `besides`: those that are open, and those that are closed and not released
        yet. Sessions that have expired are removed from the index."""
        scores = await scanning.read_sorted_set(self._link, self._keys.session_index())
        identities = [identity for identity in map(bytes.decode, scores) if identity not in besides]
        fields = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STATE)
        rows = await self._link.try_all(
            [("HMGET", self._keys.session_state(identity), *fields) for identity in identities]
        )
        open_refs: list[SessionRef] = []
        closed_refs: list[SessionRef] = []
        expired: list[str] = []
        for identity, row in zip(identities, rows, strict=True):
            if isinstance(row, Exception):
                self.log_spoilt_or_raise(identity, row)
                continue
            stream, stream_session_id, state = row
            if stream is None:
                expired.append(identity)
                continue
            refs = closed_refs if State(state.decode()).is_closed else open_refs
            refs.append(SessionRef(identity, stream.decode(), int(stream_session_id)))
        if expired:
            self._log.warning("sessions_expired", sessions=expired)
            unchanged = [(identity, scores[identity.encode()]) for identity in expired]
            await self._link.do(*retention_functions.remove_if_unchanged(self._keys.session_index(), unchanged))
        return open_refs, closed_refs

    async def are_registered(self, refs: Sequence[SessionRef]) -> list[bool]:
        """Whether each has a gate and is in the index, and its stream is in the list of streams."""
        answers = await self._link.do_all(
            [
                call
                for ref in refs
                for call in (
                    ("EXISTS", self._keys.gate(ref.stream, ref.stream_session_id)),
                    ("SISMEMBER", keys.STREAMS, ref.stream),
                    ("ZSCORE", self._keys.session_index(), ref.identity),
                )
            ]
        )
        rows = zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        return [bool(has_gate and has_stream and score is not None) for has_gate, has_stream, score in rows]

    async def silent_since(self, before_ms: int) -> dict[str, int]:
        """Sessions without a report since a time, with the time of their last one."""
        scores: dict[bytes, bytes] = {}
        while True:
            limit = ("LIMIT", len(scores), SILENT_PAGE)
            flat = await self._link.do(
                "ZRANGEBYSCORE", self._keys.session_index(), "-inf", before_ms, "WITHSCORES", *limit
            )
            scores |= pairs_to_dict(flat)
            if len(flat) < 2 * SILENT_PAGE:
                return {identity.decode(): int(score) for identity, score in scores.items()}

    async def note_loss(self, ref: SessionRef) -> None:
        """Note that Redis lost data of a session: it can't end as complete."""
        await self._link.do(*server_functions.note(self._keys, ref, keys.LOST, 1))

    async def published_version(self, ref: SessionRef) -> int:
        """The version of the newest JSON in the stream; 0 where there is none, or a writer spoilt what says it."""
        [text] = await self._link.try_all([("GET", self._keys.published(ref.stream, ref.stream_session_id))])
        if isinstance(text, Exception):
            self.log_spoilt_or_raise(ref.identity, text)
            return 0
        version: bytes = (text or b"").partition(b" ")[0]
        return int(version) if version.isdigit() else 0

    async def last_entry_id(self, stream: str) -> str:
        """Where a stream ends now; `0-0` if there is no such stream."""
        return replies.last_generated_id(await replies.read_stream_info(self._link, keys.stream(stream)))


def _time_range(totals: bytes) -> tuple[bytes, bytes]:
    """Start and end in the text of totals."""
    _, start, end = totals.rsplit(b" ", 2)
    return start, end


def _count_growth(folded: Sequence[Sequence[Any]]) -> None:
    """Count by how much streams grew, from the replies to a fold."""
    growth: dict[bytes, list[Sequence[int]]] = {}
    for answer in folded:
        if len(answer) > UNCHANGED_ITEMS:
            growth.setdefault(answer[1], []).append(answer[UNCHANGED_ITEMS:])
    for stream, rows in growth.items():
        counters.counts.add_reported(stream.decode(), [sum(column) for column in zip(*rows, strict=True)])
