"""What the supervisor does with a batch of each lane."""

from collections.abc import Sequence
from typing import Final

from rta_supervisor.archive.record import Marker
from rta_supervisor.control import deadlines
from rta_supervisor.control.consumer import Done, Entry, Lane
from rta_supervisor.control.priority import Precedence
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.time_sync import now_ms
from rta_supervisor.recovery.resurrect import Resurrection
from rta_supervisor.session.model import Folded
from rta_supervisor.session.recent_reports import Witness
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.service import Life
from rta_supervisor.session.store import Sessions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import DataLost, Link
from rta_wire import errors
from rta_wire.control import messages, report_merge
from rta_wire.pb import control_pb2

LET_OTHERS_AFTER: Final = 50
"""Reports that are looked at before somebody else has a turn: requests don't wait for a flood."""

GIVE_WAY_S: Final = 10e-6
"""For a report, about what it costs: so reports lose at most half of the time to requests."""

Outcome = control_pb2.SessionReply | errors.RtaError


KINDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
}


def count(request: messages.Request, outcome: Outcome) -> None:
    """By kind, and by what is wrong with it."""
    name = type(outcome).__name__ if isinstance(outcome, errors.RtaError) else "done"
    counters.counts.requests[KINDS[type(request)], name] += 1


class Requests:
    """Requests one by one, in order, each with one reply."""

    def __init__(
        self,
        link: Link,
        lane: Lane,
        life: Life,
        config: settings.Settings,
        precedence: Precedence | None = None,
        *,
        resurrection: Resurrection,
        marker: Marker,
    ) -> None:
        self._link = link
        self._resurrection = resurrection
        self._precedence = precedence or Precedence()
        self._lane = lane
        self._life = life
        self._marker = marker
        self._keys = config.keys
        self._config = config.control
        self._log = log.get()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.control

    async def handle(self, entries: Sequence[Entry]) -> Done:
        with self._precedence.claimed():
            return await self._handle(entries)

    async def _handle(self, entries: Sequence[Entry]) -> Done:
        cancels = [entry for entry in entries if isinstance(_unpacked(entry), control_pb2.CancelRequest)]
        # A cancellation that is here already comes before the request that it is about.
        in_order = [*cancels, *(entry for entry in entries if entry not in cancels)]
        deferred = [entry for entry in in_order if not await self._answer(entry)]
        return Done([entry for entry in entries if entry not in deferred], deferred)

    async def refuse(self, entry: Entry, error: errors.RtaError) -> None:
        """Keep the message for a person, and tell who asked."""
        await self._lane.bury(entry, error)
        if isinstance(request := _unpacked(entry), messages.Request):
            await self._reply(request.request_id, error)
            count(request, error)

    async def _answer(self, entry: Entry) -> bool:
        """Whether the request is over and done with."""
        request = _unpacked(entry)
        if isinstance(request, errors.RtaError):
            await self._lane.bury(entry, request)
            return True
        if not isinstance(request, messages.Request):
            await self._lane.bury(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return True
        if await self._link.do("EXISTS", self._keys.reply(request.request_id)):
            return True
        verdict = deadlines.request(entry.sent_ms, now_ms(), waited_for_us=not entry.is_fresh, config=self._config)
        if verdict is deadlines.Verdict.TOO_LATE:
            limit_s = self._config.pickup_s if entry.is_fresh else self._config.expire_s
            waited_s = (now_ms() - entry.sent_ms) // 1000
            await self.refuse(entry, errors.RequestExpired(waited_s=waited_s, limit_s=limit_s))
            return True
        with log.bound(request=request.request_id, session=getattr(request, "identity", None)):
            outcome = await self._outcome(entry, request)
        if outcome is None:
            return False
        await self._reply(request.request_id, outcome)
        count(request, outcome)
        return True

    async def _outcome(self, entry: Entry, request: messages.Request) -> Outcome | None:
        """None while it has to wait for something."""
        try:
            messages.check(request)
            return await self._serve(entry, request)
        except errors.UnknownSession as error:
            if not await self._link.do("XRANGE", entry.key, entry.id, entry.id):
                # Redis forgot the request as well: that is no answer to give.
                raise DataLost(str(error)) from error
            return error
        except errors.RtaError as error:
            self._log.warning("request_refused", reason=str(error))
            return error

    async def _serve(self, entry: Entry, request: messages.Request) -> Outcome | None:
        if isinstance(request, control_pb2.OpenSession):
            return await self._life.open(entry.principal, request)
        if isinstance(request, control_pb2.UpdateSession):
            return await self._life.update(entry.principal, request, at=entry.id)
        if isinstance(request, control_pb2.CloseSession):
            return await self._life.close(entry.principal, request, asked_ms=entry.sent_ms)
        if isinstance(request, control_pb2.ResurrectSession):
            return await self._resurrection.serve(entry.principal, request)
        if isinstance(request, control_pb2.NoteArchived):
            return await self._marker.mark(entry.principal, request)
        return await self._cancel(request)

    async def _cancel(self, request: control_pb2.CancelRequest) -> Outcome:
        """An answered request is done with: who finds this answer does not serve it."""
        target = request.target_request_id
        if await self._reply(target, errors.RequestCancelled()):
            self._log.info("request_cancelled", target=target)
            return control_pb2.SessionReply()
        return errors.RequestAnswered(request=target)

    async def _reply(self, request_id: str, outcome: Outcome) -> bool:
        """Whether it is the first reply."""
        raw = messages.pack_reply(request_id, outcome)
        return bool(await self._link.do(*commands.reply(self._keys, request_id, raw, ttl_s=self._config.reply_ttl_s)))


class Reports:
    """Reports all at once: those of one unit are joined before Redis sees them."""

    def __init__(
        self,
        lane: Lane,
        sessions: Sessions,
        refresher: Refresher,
        config: settings.Settings,
        precedence: Precedence | None = None,
        *,
        witness: Witness | None = None,
    ) -> None:
        self._lane = lane
        self._precedence = precedence or Precedence()
        self._sessions = sessions
        self._refresher = refresher
        self._config = config
        self._witness = witness or Witness()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config

    async def refuse(self, entry: Entry, error: errors.RtaError) -> None:
        """Keep the message for a person: nobody waits for an answer."""
        await self._lane.bury(entry, error)

    async def handle(self, entries: Sequence[Entry]) -> Done:
        at_ms = now_ms()
        earliest_ns, latest_ns = deadlines.plausible_ns(at_ms, self._config.session)
        batches = _Batches(earliest_ns, latest_ns)
        patience_s = len(entries) * GIVE_WAY_S
        for number, entry in enumerate(entries, 1):
            if number % LET_OTHERS_AFTER == 0:
                patience_s = await self._precedence.give_way(patience_s)
            try:
                if not entry.is_fresh:
                    self._check_age(entry, at_ms)
                batch = batches[entry.principal]
                batch.sources[batch.joined.add(entry.raw)] = entry
            except errors.RtaError as error:
                await self._lane.bury(entry, error)
        for batch in batches.values():
            await self._fold(batch)
        counters.counts.reports += len(entries)
        return Done(entries)

    def _check_age(self, entry: Entry, at_ms: int) -> None:
        if at_ms - entry.sent_ms >= self._config.control.expire_s * 1000:
            raise errors.BadMessage(reason=f"it could not be handled for {self._config.control.expire_s} s")

    async def _fold(self, batch: "_Batch") -> None:
        results = await self._sessions.fold(batch.joined.sessions, principal=batch.principal)
        self._witness.note(
            {
                (result.ref.identity, result.ref.stream_session_id): units
                for result, units in zip(results, batch.joined.sessions.values(), strict=True)
                if result.outcome in ("changed", "same") and not result.implausible_units
            }
        )
        await self._sessions.heard_of(result.ref for result in results if result.outcome in ("changed", "same"))
        for result in results:
            if result.outcome == "changed":
                self._refresher.touch(result.ref)
            await self._bury_refused(result, batch)

    async def _bury_refused(self, result: Folded, batch: "_Batch") -> None:
        ref = result.ref
        entry = batch.sources[ref.identity, ref.stream_session_id]
        if result.outcome == "unknown":
            await self._lane.bury(entry, errors.UnknownSession(identity=ref.identity))
        if result.outcome == "foreign":
            whose = {"theirs": result.owner, "ours": batch.principal}
            await self._lane.bury(entry, errors.SessionConflict(identity=ref.identity, what="the principal", **whose))
        for unit in result.implausible_units:
            reason = (
                "some of its totals are ahead of an earlier report and some are behind, or they are impossibly high"
            )
            await self._lane.bury(entry, errors.ImplausibleReport(unit=unit, identity=ref.identity, reason=reason))


class _Batch:
    """Reports of one principal: who says it is part of what is said."""

    def __init__(self, principal: str, joined: report_merge.Joined) -> None:
        self.principal = principal
        self.joined = joined
        self.sources: dict[report_merge.Key, Entry] = {}


class _Batches(dict[str, _Batch]):
    """By principal, made on first sight: all that a report pays for it is a look into a dict."""

    def __init__(self, earliest_ns: int, latest_ns: int) -> None:
        super().__init__()
        self._bounds = {"earliest_ns": earliest_ns, "latest_ns": latest_ns}

    def __missing__(self, principal: str) -> _Batch:
        made = self[principal] = _Batch(principal, report_merge.Joined(**self._bounds))
        return made


def _unpacked(entry: Entry) -> messages.Message | errors.RtaError:
    try:
        return messages.unpack(entry.raw)
    except errors.RtaError as error:
        return error
