"""Serves requests: each is decoded, checked against its deadline, given to the service of its type, and answered once.

Knows no session: the services come from the wiring, one for each type of request.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.control import deadlines, functions
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.entry import BatchResult, ControlEntry
from rta_supervisor.control.priority import Priority
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

RequestOutcome = control_pb2.SessionReply | errors.RtaError

RequestService = Callable[[ControlEntry, Any], Awaitable[control_pb2.SessionReply | None]]
"""Serves one type of request. None while it has to wait for something."""

KINDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
}
"""What each type is called in metrics."""


class RequestHandler:
    """Requests one by one, in order, each with one reply."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        dead_letters: DeadLetterWriter,
        services: Mapping[type, RequestService],
        priority: Priority | None = None,
    ) -> None:
        """`services`: by type of message. Cancellations are served here."""
        self._link = link
        self._keys = config.keys
        self._config = config
        self._dead_letters = dead_letters
        self._services = services
        self._priority = priority or Priority()
        self._log = log.get()

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        """Serve a batch. Reports wait meanwhile."""
        with self._priority.prioritized():
            cancels = [entry for entry in entries if isinstance(_unpacked(entry), control_pb2.CancelRequest)]
            # A cancellation that is here already comes before the request that it is about.
            in_order = [*cancels, *(entry for entry in entries if entry not in cancels)]
            deferred = [entry for entry in in_order if not await self._answer(entry)]
        return BatchResult([entry for entry in entries if entry not in deferred], deferred)

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Keep the message for a person, and answer the request with the error."""
        await self._dead_letters.add(entry, error)
        if isinstance(request := _unpacked(entry), messages.Request):
            await self._reply(request.request_id, error)
            _count(request, error)

    async def _answer(self, entry: ControlEntry) -> bool:
        """Whether the request is answered, or needs no answer any more."""
        request = _unpacked(entry)
        if isinstance(request, errors.RtaError):
            await self._dead_letters.add(entry, request)
            return True
        if not isinstance(request, messages.Request):
            await self._dead_letters.add(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return True
        if await self._link.do("EXISTS", self._keys.reply(request.request_id)):
            return True
        if (expired := self._expired(entry)) is not None:
            await self.refuse(entry, expired)
            return True
        with log.bound(request=request.request_id, session=getattr(request, "identity", None)):
            outcome = await self._outcome(entry, request)
        if outcome is None:
            return False
        await self._reply(request.request_id, outcome)
        _count(request, outcome)
        return True

    def _expired(self, entry: ControlEntry) -> errors.RequestExpired | None:
        config = self._config.control
        at_ms = now_ms()
        decision = deadlines.decide_request(
            entry.sent_ms, at_ms, was_delivered_before=not entry.is_first_delivery, config=config
        )
        if decision is deadlines.RequestDecision.SERVE:
            return None
        limit_s = config.pickup_s if entry.is_first_delivery else config.expire_s
        return errors.RequestExpired(waited_s=(at_ms - entry.sent_ms) // 1000, limit_s=limit_s)

    async def _outcome(self, entry: ControlEntry, request: messages.Request) -> RequestOutcome | None:
        """None while it has to wait for something."""
        try:
            messages.check(request)
            if isinstance(request, control_pb2.CancelRequest):
                return await self._cancel(request)
            return await self._services[type(request)](entry, request)
        except errors.UnknownSession as error:
            if not await self._link.do("XRANGE", entry.key, entry.id, entry.id):
                # Redis forgot the request as well: that is no answer to give.
                raise DataLost(str(error)) from error
            return error
        except errors.RtaError as error:
            self._log.warning("request_refused", reason=str(error))
            return error

    async def _cancel(self, request: control_pb2.CancelRequest) -> RequestOutcome:
        """Answer another request with its cancellation: a request that has an answer is not served."""
        target = request.target_request_id
        if await self._reply(target, errors.RequestCancelled()):
            self._log.info("request_cancelled", target=target)
            return control_pb2.SessionReply()
        return errors.RequestAnswered(request=target)

    async def _reply(self, request_id: str, outcome: RequestOutcome) -> bool:
        """Whether it is the first reply."""
        raw = messages.pack_reply(request_id, outcome)
        ttl_s = self._config.control.reply_ttl_s
        return bool(await self._link.do(*functions.reply(self._keys, request_id, raw, ttl_s=ttl_s)))


def _count(request: messages.Request, outcome: RequestOutcome) -> None:
    """By kind, and by what is wrong with it."""
    name = type(outcome).__name__ if isinstance(outcome, errors.RtaError) else "done"
    counters.counts.requests[KINDS[type(request)], name] += 1


def _unpacked(entry: ControlEntry) -> messages.Message | errors.RtaError:
    try:
        return messages.unpack(entry.raw)
    except errors.RtaError as error:
        return error
