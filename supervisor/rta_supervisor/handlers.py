"""What the supervisor does with a batch of each lane."""

from collections.abc import Sequence

from rta_supervisor import calls, log, settings
from rta_supervisor.lanes import Done, Entry, Lane
from rta_supervisor.link import Link
from rta_supervisor.refresh import Refresher
from rta_supervisor.sessions import Sessions
from rta_wire import control, control_pb2, errors
from rta_wire.totals import Totals


class Requests:
    """Requests one by one, in order, each with one reply."""

    def __init__(self, link: Link, lane: Lane, sessions: Sessions, config: settings.Settings) -> None:
        self._link = link
        self._lane = lane
        self._sessions = sessions
        self._keys = config.keys
        self._reply_ttl_s = config.control.reply_ttl_s

    async def handle(self, entries: Sequence[Entry]) -> Done:
        handled: list[Entry] = []
        deferred: list[Entry] = []
        for entry in entries:
            (handled if await self._answer(entry) else deferred).append(entry)
        return Done(handled, deferred)

    async def _answer(self, entry: Entry) -> bool:
        """Whether the request is over and done with."""
        try:
            request = control.unpack(entry.raw)
        except errors.RtaError as error:
            await self._lane.bury(entry, error)
            return True
        if not isinstance(request, control.Request):
            await self._lane.bury(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return True
        if await self._link.do("EXISTS", self._keys.reply(request.request_id)):
            return True
        outcome: control_pb2.SessionReply | errors.RtaError | None
        try:
            control.check(request)
            outcome = await self._serve(entry, request)
        except errors.RtaError as error:
            log.get().warning(
                "request_refused", session=request.identity, request=request.request_id, reason=str(error)
            )
            outcome = error
        if outcome is None:
            return False
        raw = control.pack_reply(request.request_id, outcome)
        await self._link.do(*calls.reply(self._keys, request.request_id, raw, ttl_s=self._reply_ttl_s))
        return True

    async def _serve(self, entry: Entry, request: control.Request) -> control_pb2.SessionReply | None:
        if isinstance(request, control_pb2.OpenSession):
            return await self._sessions.open(entry.principal, request)
        return await self._sessions.close(entry.principal, request, asked_ms=entry.sent_ms)


class Reports:
    """Reports all at once: those of one unit are joined before Redis sees them."""

    def __init__(self, lane: Lane, sessions: Sessions, refresher: Refresher) -> None:
        self._lane = lane
        self._sessions = sessions
        self._refresher = refresher

    async def handle(self, entries: Sequence[Entry]) -> Done:
        folded: dict[tuple[str, int], dict[str, Totals]] = {}
        sources: dict[tuple[str, int], Entry] = {}
        for entry in entries:
            try:
                report = control.check(control.unpack(entry.raw))
                if not isinstance(report, control.Report):
                    raise errors.BadMessage(reason="a request came in the lane of reports")
            except errors.RtaError as error:
                await self._lane.bury(entry, error)
                continue
            key = report.identity, report.stream_session_id
            sources[key] = entry
            units = folded.setdefault(key, {})
            if isinstance(report, control_pb2.Progress):
                totals = Totals.from_message(report.totals)
                units[report.unit] = totals.joined(units.get(report.unit, Totals()))
        await self._fold(folded, sources)
        return Done(entries)

    async def _fold(
        self, folded: dict[tuple[str, int], dict[str, Totals]], sources: dict[tuple[str, int], Entry]
    ) -> None:
        for ref, outcome in await self._sessions.fold(folded):
            if outcome == "changed":
                self._refresher.touch(ref)
            elif outcome == "unknown":
                source = sources[ref.identity, ref.stream_session_id]
                await self._lane.bury(source, errors.UnknownSession(identity=ref.identity))
