"""What the supervisor does with a batch of each lane."""

from collections.abc import Sequence
from typing import Final

from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.control import deadlines, functions
from rta_supervisor.control.consumer import ControlConsumer
from rta_supervisor.control.entry import BatchResult, ControlEntry
from rta_supervisor.control.priority import Priority
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.recovery.resurrect import Resurrection
from rta_supervisor.session.service import SessionService
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

RequestOutcome = control_pb2.SessionReply | errors.RtaError


KINDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
}


def count_request(request: messages.Request, outcome: RequestOutcome) -> None:
    """By kind, and by what is wrong with it."""
    name = type(outcome).__name__ if isinstance(outcome, errors.RtaError) else "done"
    counters.counts.requests[KINDS[type(request)], name] += 1


class RequestHandler:
    """Requests one by one, in order, each with one reply."""

    def __init__(
        self,
        link: Link,
        lane: ControlConsumer,
        life: SessionService,
        config: settings.Settings,
        precedence: Priority | None = None,
        *,
        resurrection: Resurrection,
        marker: ArchiveRecorder,
    ) -> None:
        self._link = link
        self._resurrection = resurrection
        self._precedence = precedence or Priority()
        self._lane = lane
        self._life = life
        self._marker = marker
        self._keys = config.keys
        self._config = config
        self._log = log.get()

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        with self._precedence.prioritized():
            return await self._handle(entries)

    async def _handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        cancels = [entry for entry in entries if isinstance(_unpacked(entry), control_pb2.CancelRequest)]
        # A cancellation that is here already comes before the request that it is about.
        in_order = [*cancels, *(entry for entry in entries if entry not in cancels)]
        deferred = [entry for entry in in_order if not await self._answer(entry)]
        return BatchResult([entry for entry in entries if entry not in deferred], deferred)

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Keep the message for a person, and tell who asked."""
        await self._lane.dead_letter(entry, error)
        if isinstance(request := _unpacked(entry), messages.Request):
            await self._reply(request.request_id, error)
            count_request(request, error)

    async def _answer(self, entry: ControlEntry) -> bool:
        """Whether the request is over and done with."""
        request = _unpacked(entry)
        if isinstance(request, errors.RtaError):
            await self._lane.dead_letter(entry, request)
            return True
        if not isinstance(request, messages.Request):
            await self._lane.dead_letter(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return True
        if await self._link.do("EXISTS", self._keys.reply(request.request_id)):
            return True
        verdict = deadlines.decide_request(
            entry.sent_ms, now_ms(), was_delivered_before=not entry.is_first_delivery, config=self._config.control
        )
        if verdict is deadlines.RequestDecision.TOO_LATE:
            limit_s = self._config.control.pickup_s if entry.is_first_delivery else self._config.control.expire_s
            waited_s = (now_ms() - entry.sent_ms) // 1000
            await self.refuse(entry, errors.RequestExpired(waited_s=waited_s, limit_s=limit_s))
            return True
        with log.bound(request=request.request_id, session=getattr(request, "identity", None)):
            outcome = await self._outcome(entry, request)
        if outcome is None:
            return False
        await self._reply(request.request_id, outcome)
        count_request(request, outcome)
        return True

    async def _outcome(self, entry: ControlEntry, request: messages.Request) -> RequestOutcome | None:
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

    async def _serve(self, entry: ControlEntry, request: messages.Request) -> RequestOutcome | None:
        if isinstance(request, control_pb2.OpenSession):
            return await self._life.open(entry.principal, request)
        if isinstance(request, control_pb2.UpdateSession):
            return await self._life.update(entry.principal, request, entry_id=entry.id)
        if isinstance(request, control_pb2.CloseSession):
            return await self._life.close(entry.principal, request, asked_ms=entry.sent_ms)
        if isinstance(request, control_pb2.ResurrectSession):
            return await self._resurrection.serve(entry.principal, request)
        if isinstance(request, control_pb2.NoteArchived):
            return await self._marker.record(entry.principal, request)
        return await self._cancel(request)

    async def _cancel(self, request: control_pb2.CancelRequest) -> RequestOutcome:
        """An answered request is done with: who finds this answer does not serve it."""
        target = request.target_request_id
        if await self._reply(target, errors.RequestCancelled()):
            self._log.info("request_cancelled", target=target)
            return control_pb2.SessionReply()
        return errors.RequestAnswered(request=target)

    async def _reply(self, request_id: str, outcome: RequestOutcome) -> bool:
        """Whether it is the first reply."""
        raw = messages.pack_reply(request_id, outcome)
        return bool(
            await self._link.do(*functions.reply(self._keys, request_id, raw, ttl_s=self._config.control.reply_ttl_s))
        )


def _unpacked(entry: ControlEntry) -> messages.Message | errors.RtaError:
    try:
        return messages.unpack(entry.raw)
    except errors.RtaError as error:
        return error
