"""Reports of writers, a batch at a time: those of one unit are merged before Redis sees them."""

from collections.abc import Sequence
from typing import Final

from rta_supervisor.control import deadlines
from rta_supervisor.control.consumer import ControlConsumer
from rta_supervisor.control.entry import BatchResult, ControlEntry
from rta_supervisor.control.priority import Priority
from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.session.model import FoldResult
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.control import report_merge

YIELD_EVERY_REPORTS: Final = 50
"""Reports that are looked at before somebody else has a turn: requests don't wait for a flood."""


YIELD_PER_REPORT_S: Final = 10e-6
"""For a report, about what it costs: so reports lose at most half of the time to requests."""


class ReportHandler:
    """Reports all at once: those of one unit are joined before Redis sees them."""

    def __init__(
        self,
        lane: ControlConsumer,
        sessions: SessionStore,
        refresher: Refresher,
        config: settings.Settings,
        precedence: Priority | None = None,
        *,
        recent_reports: RecentReports | None = None,
    ) -> None:
        self._lane = lane
        self._precedence = precedence or Priority()
        self._sessions = sessions
        self._refresher = refresher
        self._config = config
        self._witness = recent_reports or RecentReports()

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Keep the message for a person: nobody waits for an answer."""
        await self._lane.dead_letter(entry, error)

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        at_ms = now_ms()
        earliest_ns, latest_ns = deadlines.plausible_ns(at_ms, self._config.session)
        batches = _ReportsByPrincipal(earliest_ns, latest_ns)
        patience_s = len(entries) * YIELD_PER_REPORT_S
        for number, entry in enumerate(entries, 1):
            if number % YIELD_EVERY_REPORTS == 0:
                patience_s = await self._precedence.yield_to_claims(patience_s)
            try:
                if not entry.is_first_delivery:
                    self._check_age(entry, at_ms)
                batch = batches[entry.principal]
                batch.sources[batch.joined.add(entry.raw)] = entry
            except errors.RtaError as error:
                await self._lane.dead_letter(entry, error)
        for batch in batches.values():
            await self._fold(batch)
        counters.counts.reports += len(entries)
        return BatchResult(entries)

    def _check_age(self, entry: ControlEntry, at_ms: int) -> None:
        if at_ms - entry.sent_ms >= self._config.control.expire_s * 1000:
            raise errors.BadMessage(reason=f"it could not be handled for {self._config.control.expire_s} s")

    async def _fold(self, batch: "_PrincipalReports") -> None:
        results = await self._sessions.fold(batch.joined.sessions, principal=batch.principal)
        self._witness.add(
            {
                (result.ref.identity, result.ref.stream_session_id): units
                for result, units in zip(results, batch.joined.sessions.values(), strict=True)
                if result.outcome in ("changed", "same") and not result.implausible_units
            }
        )
        await self._sessions.note_heartbeat(result.ref for result in results if result.outcome in ("changed", "same"))
        for result in results:
            if result.outcome == "changed":
                self._refresher.mark_changed(result.ref)
            await self._dead_letter_refused(result, batch)

    async def _dead_letter_refused(self, result: FoldResult, batch: "_PrincipalReports") -> None:
        ref = result.ref
        entry = batch.sources[ref.identity, ref.stream_session_id]
        if result.outcome == "unknown":
            await self._lane.dead_letter(entry, errors.UnknownSession(identity=ref.identity))
        if result.outcome == "foreign":
            whose = {"theirs": result.owner, "ours": batch.principal}
            await self._lane.dead_letter(
                entry, errors.SessionConflict(identity=ref.identity, what="the principal", **whose)
            )
        for unit in result.implausible_units:
            reason = (
                "some of its totals are ahead of an earlier report and some are behind, or they are impossibly high"
            )
            await self._lane.dead_letter(
                entry, errors.ImplausibleReport(unit=unit, identity=ref.identity, reason=reason)
            )


class _PrincipalReports:
    """Reports of one principal: who says it is part of what is said."""

    def __init__(self, principal: str, joined: report_merge.MergedReports) -> None:
        self.principal = principal
        self.joined = joined
        self.sources: dict[report_merge.SessionKey, ControlEntry] = {}


class _ReportsByPrincipal(dict[str, _PrincipalReports]):
    """By principal, made on first sight: all that a report pays for it is a look into a dict."""

    def __init__(self, earliest_ns: int, latest_ns: int) -> None:
        super().__init__()
        self._bounds = {"earliest_ns": earliest_ns, "latest_ns": latest_ns}

    def __missing__(self, principal: str) -> _PrincipalReports:
        made = self[principal] = _PrincipalReports(principal, report_merge.MergedReports(**self._bounds))
        return made
