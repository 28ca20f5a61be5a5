"""Folds what writers report, and the marks that they leave beside their data, into the totals of sessions."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from rta_supervisor.diagnostics import counters, principal_limits
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import model, server_functions
from rta_supervisor.session.marks.reader import MarkReader
from rta_supervisor.session.model import FoldResult, SessionRef
from rta_supervisor.session.records import fold_calls
from rta_supervisor.session.records.reader import RecordReader
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import map_pages
from rta_wire import errors, keys
from rta_wire.control.report_merge import SessionKey
from rta_wire.control.totals import Totals

UNCHANGED_ITEMS: Final = 4
"""Items of the reply to a fold that changed nothing; one that did has the growth of the four counts after them."""

CALL_SESSIONS: Final = 50
"""Sessions in one call where all live on one server: a call costs as much as what it does for one session, and Redis
serves nobody else meanwhile."""

PAGE_CALLS: Final = 10
"""Calls in one round trip: what they hold is packed at once, and requests wait for that."""

NAMED_UNITS: Final = 10
SPOILT_MAX_CHARS: Final = 500


class MarksResult(NamedTuple):
    """What became of the marks of a session."""

    is_changed: bool
    problem: str
    """Why not all marks are in the totals, as a sentence; empty where all are."""

    fences: tuple[str, ...] = ()
    """Fences of units that are still to be removed."""

    mark_count: int = 0
    """How many marks there are, whether they were read or not."""


class TotalsStore(RecordReader):
    """The totals of all sessions."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        super().__init__(link, config)
        self._clock = clock
        self._call_sessions = 1 if link.is_cluster else CALL_SESSIONS

    async def fold(
        self, reports: Mapping[SessionKey, Mapping[str, Totals]], *, principal: str | None = None
    ) -> list[FoldResult]:
        """Join reports into sessions. `principal`: the one that reported; None folds into sessions of any principal."""
        parts = fold_calls.split(reports)
        calls = list(fold_calls.group(parts, self._call_sessions))
        results = await map_pages(calls, functools.partial(self._fold_calls, principal), size=PAGE_CALLS)
        if len(parts) == len(reports):
            return results
        by_session: dict[SessionKey, list[FoldResult]] = {}
        for (key, _), result in zip(parts, results, strict=True):
            by_session.setdefault(key, []).append(result)
        return [model.join_fold_results(by_session[key]) for key in reports]

    async def _fold_calls(
        self, principal: str | None, calls: Sequence[Sequence[fold_calls.UnitReports]]
    ) -> list[FoldResult]:
        max_units = self._config.limits.session_units
        answers = await self._link.do_all(
            [server_functions.fold(self._keys, reports, max_units=max_units, principal=principal) for reports in calls]
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
                itertools.chain.from_iterable(calls), folded, strict=True
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
            principal = await self.note_spoilt(ref, reader.key, problem)
            if surplus or reader.is_over_limit:
                principal_limits.note_reached(principal, "session_units")
        return MarksResult(is_changed, problem, fences, reader.count)

    async def note_spoilt(self, ref: SessionRef, key: str, problem: str) -> str:
        """Note with a session which of its keys can't be read or written, and log it. Gives its principal."""
        raw = await self._link.do("HGET", self._keys.session_state(ref.identity), keys.PRINCIPAL)
        principal: str = (raw or b"").decode()
        self._log.error("session_spoilt", session=ref.identity, principal=principal, key=key, reason=problem)
        principal_limits.note_spoilt(principal)
        text = f"{key}: {problem}"[:SPOILT_MAX_CHARS]
        await self._link.do(*server_functions.note(self._keys, ref, keys.SPOILT, text))
        return principal

    async def has_unfolded_marks(self, ref: SessionRef) -> bool:
        """Whether data stands in the stream that the totals do not have. Changes nothing."""
        async for page in MarkReader(self._link, self._config, ref, self._clock).pages():
            folded = await self.unit_totals(ref.identity, list(page.units))
            if any(unit not in folded or not folded[unit].dominates(totals) for unit, totals in page.units.items()):
                return True
        return False

    async def note_loss(self, ref: SessionRef) -> None:
        """Note that Redis lost data of a session: it can't end as complete."""
        await self._link.do(*server_functions.note(self._keys, ref, keys.LOST, 1))


def _count_growth(folded: Sequence[Sequence[Any]]) -> None:
    """Count by how much streams grew, from the replies to a fold."""
    growth: dict[bytes, list[Sequence[int]]] = {}
    for answer in folded:
        if len(answer) > UNCHANGED_ITEMS:
            growth.setdefault(answer[1], []).append(answer[UNCHANGED_ITEMS:])
    for stream, rows in growth.items():
        counters.counts.add_reported(stream.decode(), [sum(column) for column in zip(*rows, strict=True)])
