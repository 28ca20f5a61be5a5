"""Serves requests: each is decoded, checked against its deadline, given to the service of its type, and answered with
one reply. Knows no session: the services come from the wiring, one for each type of request.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.control import expiry, server_functions
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.entry import BatchResult, ControlEntry
from rta_supervisor.control.request_priority import RequestPriority
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
"""Serves one type of request. Gives None while the request has to wait for something."""

DecodedEntry = tuple[ControlEntry, messages.Message | errors.RtaError]
"""An entry with its message, or with the error that says why it has none."""

KINDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
}
"""The label of each type of request in metrics."""


class RequestHandler:
    """Serves requests one by one, in order, each with one reply."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        dead_letters: DeadLetterWriter,
        services: Mapping[type, RequestService],
        request_priority: RequestPriority | None = None,
    ) -> None:
        """`services`: by type of message. Cancellations are served here."""
        self._link = link
        self._keys = config.keys
        self._config = config
        self._dead_letters = dead_letters
        self._services = services
        self._request_priority = request_priority or RequestPriority()
        self._log = log.get()

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        """Serve a batch, cancellations before the requests that they cancel. Reports wait meanwhile."""
        with self._request_priority.serving():
            decoded = [_decode(entry) for entry in entries]
            decoded.sort(key=lambda pair: not isinstance(pair[1], control_pb2.CancelRequest))
            deferred = [entry for entry, message in decoded if not await self._serve(entry, message)]
        return BatchResult([entry for entry in entries if entry not in deferred], deferred)

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Add a message that can't be handled to the dead letters, and reply to a request with the error."""
        await self._refuse(*_decode(entry), error)

    async def _refuse(
        self, entry: ControlEntry, message: messages.Message | errors.RtaError, error: errors.RtaError
    ) -> None:
        await self._dead_letters.add(entry, error)
        if isinstance(message, messages.Request):
            await self._reply(message.request_id, error)
            _count(message, error)

    async def _serve(self, entry: ControlEntry, message: messages.Message | errors.RtaError) -> bool:
        """Serve one message. Whether it is done with; otherwise it has to wait for something."""
        if isinstance(message, errors.RtaError):
            await self._dead_letters.add(entry, message)
            return True
        if not isinstance(message, messages.Request):
            await self._dead_letters.add(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return True
        if await self._link.do("EXISTS", self._keys.reply(message.request_id)):
            return True
        expired = expiry.expired_request(
            entry.sent_ms, now_ms(), is_first_delivery=entry.is_first_delivery, config=self._config.control
        )
        if expired is not None:
            await self._refuse(entry, message, expired)
            return True
        session = getattr(message, "identity", None)
        with log.bound(request=message.request_id, principal=entry.principal, session=session):
            outcome = await self._outcome(entry, message)
        if outcome is None:
            return False
        await self._reply(message.request_id, outcome)
        _count(message, outcome)
        return True

    async def _outcome(self, entry: ControlEntry, request: messages.Request) -> RequestOutcome | None:
        """What a request is to be answered with; None while it has to wait for something."""
        try:
            messages.check(request)
            if isinstance(request, control_pb2.CancelRequest):
                return await self._cancel(request)
            return await self._services[type(request)](entry, request)
        except errors.UnknownSession as error:
            if not await self._link.do("XRANGE", entry.key, entry.id, entry.id):
                # Redis lost the request as well, and perhaps the session with it: the session is not unknown then.
                raise DataLost(str(error)) from error
            return error
        except errors.RtaError as error:
            self._log.warning("request_refused", reason=str(error))
            return error

    async def _cancel(self, request: control_pb2.CancelRequest) -> RequestOutcome:
        """Reply to another request that it is cancelled: a request that has a reply is not served."""
        target = request.target_request_id
        if await self._reply(target, errors.RequestCancelled()):
            self._log.info("request_cancelled", target=target)
            return control_pb2.SessionReply()
        return errors.RequestAnswered(request=target)

    async def _reply(self, request_id: str, outcome: RequestOutcome) -> bool:
        """Reply, unless there is a reply. Whether it is the first one."""
        raw = messages.pack_reply(request_id, outcome)
        ttl_s = self._config.control.reply_ttl_s
        return bool(await self._link.do(*server_functions.reply(self._keys, request_id, raw, ttl_s=ttl_s)))


def _count(request: messages.Request, outcome: RequestOutcome) -> None:
    """Count a request by type, and by its error."""
    result = type(outcome).__name__ if isinstance(outcome, errors.RtaError) else "done"
    counters.counts.requests[KINDS[type(request)], result] += 1


def _decode(entry: ControlEntry) -> DecodedEntry:
    try:
        return entry, messages.unpack(entry.raw)
    except errors.RtaError as error:
        # Without the traceback, which holds the decoded message for as long as the error is kept.
        return entry, error.with_traceback(None)
