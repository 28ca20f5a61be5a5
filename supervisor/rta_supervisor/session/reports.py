"""Folds reports of writers into sessions, a batch at a time: those of one unit are merged before Redis gets them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rta_supervisor.control import expiry
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.request_priority import RequestPriority
from rta_supervisor.diagnostics import counters, principal_limits
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.session import time_limits
from rta_supervisor.session.model import FoldOutcome, FoldResult
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging
from rta_wire import errors
from rta_wire.control import report_merge

YIELD_EVERY_REPORTS: Final = 50
"""Reports that are merged before requests have a turn: they don't wait for a flood of reports."""

YIELD_PER_REPORT_S: Final = 10e-6
"""How long a report may wait for requests, about what it costs: reports lose at most half of the time."""


YIELD_PER_LETTER_S: Final = 100e-6
"""How long a report that becomes a dead letter may wait for requests, about what it costs."""

Refused = tuple[ControlEntry, errors.RtaError]
"""A report that can't be folded, and why."""


class ReportHandler:
    """Folds a batch of reports into the sessions that they are about."""

    def __init__(
        self,
        dead_letters: DeadLetterWriter,
        sessions: SessionStore,
        refresher: Refresher,
        config: settings.Settings,
        request_priority: RequestPriority | None = None,
        *,
        recent_reports: RecentReports | None = None,
        on_changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_changed`: called with the identity of each session whose folded state has changed."""
        self._dead_letters = dead_letters
        self._request_priority = request_priority or RequestPriority()
        self._sessions = sessions
        self._refresher = refresher
        self._config = config
        self._recent_reports = recent_reports or RecentReports()
        self._on_changed = on_changed

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Add a report that can't be handled to the dead letters. Reports get no reply."""
        await self._dead_letters.add(entry, error)

    async def handle(self, entries: Sequence[ControlEntry]) -> None:
        """Merge reports by unit and fold them. One that can't be folded goes to the dead letters."""
        at_ms = now_ms()
        earliest_ns, latest_ns = time_limits.plausible_ns(at_ms, self._config.session)
        batches = _ReportsByPrincipal(earliest_ns, latest_ns)
        refused: list[Refused] = []
        yield_s = len(entries) * YIELD_PER_REPORT_S
        for number, entry in enumerate(entries, 1):
            if number % YIELD_EVERY_REPORTS == 0:
                yield_s = await self._request_priority.yield_to_requests(yield_s)
            try:
                if not entry.is_first_delivery:
                    self._check_age(entry, at_ms)
                batch = batches[entry.principal]
                batch.entries[batch.merged.add(entry.raw)] = entry
            except errors.RtaError as error:
                refused.append((entry, error))
        # Those of few reports first: they do not wait for a flood of another principal.
        for batch in sorted(batches.values(), key=lambda batch: len(batch.merged.sessions)):
            refused += await self._fold(batch)
        for page in paging.pages(refused, YIELD_EVERY_REPORTS):
            await self._request_priority.yield_to_requests(len(page) * YIELD_PER_LETTER_S)
            await self._dead_letters.add_all(page)
        counters.counts.reports += len(entries)

    def _check_age(self, entry: ControlEntry, at_ms: int) -> None:
        if (error := expiry.expired_report(entry.sent_ms, at_ms, self._config.control)) is not None:
            raise error

    async def _fold(self, batch: "_PrincipalReports") -> list[Refused]:
        """Fold the reports of a principal. Gives those that can't be folded, with the reason of each."""
        results = await self._sessions.fold(batch.merged.sessions, principal=batch.principal)
        accepted = [
            (result, units)
            for result, units in zip(results, batch.merged.sessions.items(), strict=True)
            if result.outcome.is_accepted
        ]
        self._recent_reports.add(
            {
                key: units
                for result, (key, units) in accepted
                if not result.implausible_units and not result.surplus_units
            }
        )
        await self._sessions.note_heartbeat(result.ref for result, _ in accepted)
        for result in results:
            if result.outcome is FoldOutcome.CHANGED:
                self._refresher.mark_changed(result.ref)
                self._on_changed(result.ref.identity)
        return [refused for result in results for refused in self._refused(result, batch)]

    def _refused(self, result: FoldResult, batch: "_PrincipalReports") -> Iterator[Refused]:
        """The last entry about a session, once for each thing that Redis refused of it."""
        ref = result.ref
        entry = batch.entries[ref.identity, ref.stream_session_id]
        if result.outcome is FoldOutcome.UNKNOWN:
            yield entry, errors.UnknownSession(identity=ref.identity)
        if result.outcome is FoldOutcome.FOREIGN:
            principals = {"theirs": result.owner, "ours": batch.principal}
            yield entry, errors.SessionConflict(identity=ref.identity, what="the principal", **principals)
        if result.outcome is FoldOutcome.SPOILT:
            key, reason = self._config.keys.session_state(ref.identity), "something else stands in place of the state"
            yield entry, errors.SpoiltKey(key=key, reason=reason)
        if result.surplus_units:
            yield entry, self._too_many_units(result, batch.principal)
        for unit in result.implausible_units:
            reason = (
                "some of its totals are ahead of an earlier report and some are behind, or they are impossibly high"
            )
            yield entry, errors.ImplausibleReport(unit=unit, identity=ref.identity, reason=reason)

    def _too_many_units(self, result: FoldResult, principal: str) -> errors.LimitReached:
        principal_limits.note_reached(principal, "session_units", count=len(result.surplus_units))
        limit = self._config.limits.session_units
        return errors.LimitReached(
            principal=principal,
            what=f"{limit} units in session {result.ref.identity!r}",
            setting="limits.session_units",
            limit=limit,
            remedy=f"Reports of further units are left out, the first is {result.surplus_units[0]!r}.",
        )


class _PrincipalReports:
    """Reports of one principal, merged, with the last entry of each session that they are about."""

    def __init__(self, principal: str, merged: report_merge.MergedReports) -> None:
        self.principal = principal
        self.merged = merged
        self.entries: dict[report_merge.SessionKey, ControlEntry] = {}


class _ReportsByPrincipal(dict[str, _PrincipalReports]):
    """Reports by principal, made when a principal is first looked up: each further report costs one look-up."""

    def __init__(self, earliest_ns: int, latest_ns: int) -> None:
        super().__init__()
        self._bounds = {"earliest_ns": earliest_ns, "latest_ns": latest_ns}

    def __missing__(self, principal: str) -> _PrincipalReports:
        reports = self[principal] = _PrincipalReports(principal, report_merge.MergedReports(**self._bounds))
        return reports
