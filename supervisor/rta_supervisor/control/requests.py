"""Serves one request: checks it against its deadline, gives it to the service of its type, and answers it with one
reply. Cancellations are served many at a time. Knows no session: the services come from the wiring, one for each type
of request. Which request is served when is decided in `request_consumer`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.control import expiry, server_functions
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.payloads.payload_store import PayloadStore, payload_of
from rta_supervisor.control.payloads.unread_replies import PAGE_TTL_S, UnreadReplies
from rta_supervisor.control.request_priority import RequestPriority
from rta_supervisor.control.waiting_requests import RequestInHand, Wait
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

RequestOutcome = messages.ReplyBody | errors.RtaError

RequestService = Callable[[ControlEntry, Any], Awaitable[messages.ReplyBody | Wait]]
"""Serves one type of request. Gives what the request has to wait for where it can't be answered yet."""

KINDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.ResurrectSession: "resurrect",
    control_pb2.NoteArchived: "archived",
    control_pb2.GetSession: "get",
    control_pb2.ListSessions: "list",
    control_pb2.StorePiece: "piece",
    control_pb2.TrimStream: "trim",
    control_pb2.PublishConfig: "publish_config",
    control_pb2.GetConfig: "get_config",
}
"""The label of each type of request in metrics."""

HasLostSince = Callable[[int], Awaitable[bool]]
"""Whether Redis lost data since a time in milliseconds."""

_LARGE_REPLIES: Final = (control_pb2.SessionPage, control_pb2.ConfigPart)
"""Replies that a small request may have, and that change nothing."""


class RequestHandler:
    """Serves requests, each with one reply."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        dead_letters: DeadLetterWriter,
        services: Mapping[type, RequestService],
        request_priority: RequestPriority | None = None,
        *,
        has_lost_since: HasLostSince,
    ) -> None:
        """`services`: by type of message. Cancellations and pieces of payloads are served here."""
        self._link = link
        self._keys = config.keys
        self._config = config
        self._dead_letters = dead_letters
        self._payloads = PayloadStore(link, config)
        self._unread_replies = UnreadReplies(link, config)
        self._services: dict[type, RequestService] = {**services, control_pb2.StorePiece: self._payloads.store}
        self._request_priority = request_priority or RequestPriority()
        self._has_lost_since = has_lost_since
        self._log = log.get()

    async def serve(self, request: RequestInHand) -> Wait | None:
        """Serve a request. Gives what it has to wait for; None where it is done with. Reports wait meanwhile."""
        with self._request_priority.serving():
            return await self._serve(request.entry, request.message)

    async def _serve(self, entry: ControlEntry, message: messages.Message | errors.RtaError) -> Wait | None:
        if isinstance(message, errors.RtaError):
            await self._dead_letters.add(entry, message)
            return None
        if not isinstance(message, messages.Request):
            await self._dead_letters.add(entry, errors.BadMessage(reason="a report came in the lane of requests"))
            return None
        if isinstance(message, control_pb2.CancelRequest):
            await self.cancel([(entry, message)])
            return None
        if await self._link.do("EXISTS", self._keys.reply(message.request_id)):
            return None
        expired = self._expired(entry)
        if expired is not None:
            await self._refuse(entry, message, expired)
            return None
        with log.bound(request=message.request_id, principal=entry.principal, session=messages.session_of(message)):
            outcome = await self._outcome(entry, message)
        if isinstance(outcome, Wait):
            return outcome
        await self.answer(message, outcome)
        await self._payloads.remove(entry.principal, message)
        return None

    async def cancel(self, cancellations: Sequence[tuple[ControlEntry, control_pb2.CancelRequest]]) -> None:
        """Serve cancellations: reply to their targets that they are cancelled, then to themselves. A request that has a
        reply is not served."""
        valid: list[control_pb2.CancelRequest] = []
        for entry, request in cancellations:
            if (expired := self._expired(entry)) is not None:
                await self._refuse(entry, request, expired)
                continue
            try:
                messages.check(request)
            except errors.RtaError as error:
                await self.answer(request, error)
            else:
                valid.append(request)
        are_first = await self._link.do_all(
            [self._reply_command(request.target_request_id, errors.RequestCancelled()) for request in valid]
        )
        outcomes: list[RequestOutcome] = [
            control_pb2.SessionReply() if is_first else errors.RequestAnswered(request=request.target_request_id)
            for request, is_first in zip(valid, are_first, strict=True)
        ]
        await self._link.do_all(
            [self._reply_command(request.request_id, outcome) for request, outcome in zip(valid, outcomes, strict=True)]
        )
        for request, outcome in zip(valid, outcomes, strict=True):
            _count(request, outcome)
        if count := sum(are_first):
            self._log.info("request_cancelled", target=valid[0].target_request_id, count=count)

    async def refuse(self, request: RequestInHand, error: errors.RtaError) -> None:
        """Add a message that can't be handled to the dead letters, and reply to a request with the error."""
        await self._refuse(request.entry, request.message, error)

    async def _refuse(
        self, entry: ControlEntry, message: messages.Message | errors.RtaError, error: errors.RtaError
    ) -> None:
        await self._dead_letters.add(entry, error)
        if isinstance(message, messages.Request):
            await self.answer(message, error)

    async def answer(self, request: messages.Request, outcome: RequestOutcome) -> None:
        """Reply to a request, unless it has a reply."""
        await self._link.do(*self._reply_command(request.request_id, outcome))
        _count(request, outcome)

    def _expired(self, entry: ControlEntry) -> errors.RequestExpired | None:
        return expiry.expired_request(
            entry.sent_ms, now_ms(), is_first_delivery=entry.is_first_delivery, config=self._config.control
        )

    async def _outcome(self, entry: ControlEntry, request: messages.Request) -> RequestOutcome | Wait:
        """What a request is to be answered with, or what it has to wait for."""
        try:
            messages.check(request)
            return await self._call_service(entry, request)
        except errors.UnknownSession as error:
            is_gone = not await self._link.do("XRANGE", entry.key, entry.id, entry.id)
            # A principal may trim its own control stream. Where Redis lost the request it perhaps lost the session too,
            # which is not unknown then.
            if is_gone and await self._has_lost_since(entry.sent_ms):
                raise DataLost(str(error)) from error
            return error
        except errors.RtaError as error:
            self._log.warning("request_refused", reason=str(error))
            return error

    async def _call_service(self, entry: ControlEntry, request: messages.Request) -> messages.ReplyBody | Wait:
        service = self._services[type(request)]
        if payload_of(request) is not None:
            async with self._payloads.turn(entry.principal):
                return await service(entry, await self._payloads.with_text(entry.principal, request))
        outcome = await service(entry, request)
        if isinstance(outcome, _LARGE_REPLIES):
            key = self._keys.reply(request.request_id)
            await self._unread_replies.add(entry.principal, key, outcome.ByteSize())
        return outcome

    def _reply_command(self, request_id: str, outcome: RequestOutcome) -> commands.Command:
        """The command that replies to a request, unless it has a reply. It gives whether this is the first one."""
        raw = messages.pack_reply(request_id, outcome)
        ttl_s = self._config.control.reply_ttl_s
        if isinstance(outcome, _LARGE_REPLIES):
            ttl_s = min(ttl_s, PAGE_TTL_S)
        return server_functions.reply(self._keys, request_id, raw, ttl_s=ttl_s)


def _count(request: messages.Request, outcome: RequestOutcome) -> None:
    """Count a request by type, and by its error."""
    result = type(outcome).__name__ if isinstance(outcome, errors.RtaError) else "done"
    counters.counts.requests[KINDS[type(request)], result] += 1
