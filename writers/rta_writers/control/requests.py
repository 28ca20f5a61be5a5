"""Sends requests to the supervisor through a control stream and waits for their replies, one request or many at a time.

A supervisor that is away, as during a restart, is waited for within the timeout.
"""

import contextlib
import itertools
import time
from collections.abc import Sequence
from typing import Any, Final, cast

import redis
import redis.exceptions

from rta_wire import errors, keys, limits, redis_url
from rta_wire.control import messages, payload
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client, retry
from rta_writers.control.supervisors import Supervisors, too_old

BLOCK_S: Final = 2.0
SHORTEST_BLOCK_S: Final = 0.01
"""What Redis is asked for. An idle one looks at the clock ten times a second, so that it may become 0.1 s."""

REPLIES_AT_A_TIME: Final = 50
"""Replies that are waited for one after another before the supervisor is looked for."""

PAGE_REQUESTS: Final = 200
"""Requests of one call that are under way at a time."""

OVERHEAD_BYTES: Final = 1024
"""What a message needs besides its body, at most."""

NEEDED_RELEASE: Final = (0, 2)
"""The supervisors that answer look-ups and take payloads."""

_PAYLOADS: Final[dict[type, tuple[str, int]]] = {
    control_pb2.OpenSession: ("session_json", limits.PAYLOAD_MAX_PIECES),
    control_pb2.UpdateSession: ("properties_json", limits.PAYLOAD_MAX_PIECES),
    control_pb2.PublishConfig: ("config_json", limits.CONFIG_MAX_PIECES),
}
"""The field of a request that a payload can stand in for, and how many pieces that may have."""

RequestOutcome = control_pb2.SessionReply | errors.RtaError


class _PendingRequest:
    """A request without a reply so far."""

    def __init__(self, request: messages.Request) -> None:
        self.request = request
        self.raw = messages.pack(messages.check(request))
        self.entry_id = b""
        self.outcome: RequestOutcome | None = None

    def renew(self) -> None:
        """Make it a request that was never sent, under an id of its own."""
        self.request.request_id = messages.new_request_id()
        self.raw = messages.pack(self.request)
        self.outcome = None

    @property
    def identity(self) -> str:
        """What the request names its session by; empty where it is about none."""
        if isinstance(self.request, control_pb2.UpdateSession | control_pb2.GetSession) and self.request.external_id:
            return self.request.external_id
        return messages.session_of(self.request)


class RequestSender:
    """Sends requests of one principal."""

    def __init__(self, client: redis.Redis, url: str, names: keys.Keys, principal: str, *, timeout_s: float) -> None:
        self._redis = client
        self._url = url
        self._keys = names
        self._principal = principal
        self._timeout_s = timeout_s
        self.supervisors = Supervisors(client, url, names, principal)

    def ask(self, request: messages.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply. Raises the error that the supervisor replied."""
        [outcome] = self.ask_all([request])
        if isinstance(outcome, errors.RtaError):
            raise outcome
        return outcome

    def ask_all(self, requests: Sequence[messages.Request]) -> list[RequestOutcome]:
        """Send requests and give the outcome of each, in their order: the reply, or the error that it names.

        They are sent again after a short outage: the supervisor may get one twice, and serves it once.
        """
        pending = [_PendingRequest(self._with_payload(request)) for request in requests]
        for first in range(0, len(pending), PAGE_REQUESTS):
            self._serve(pending[first : first + PAGE_REQUESTS])
        return [request.outcome for request in pending if request.outcome is not None]

    def look_up(self, request: messages.LookUp) -> control_pb2.SessionPage:
        """Send a look-up and wait for its page, which is removed from Redis after that: it may be large."""
        [page] = self._ask_new_kind([request], "Looking at sessions")
        self._forget_reply(request.request_id)
        return cast("control_pb2.SessionPage", page)

    def publish(self, request: control_pb2.PublishConfig) -> control_pb2.ConfigReply:
        """Have a configuration kept."""
        [reply] = self._ask_new_kind([request], "Publishing the channels of a session")
        return cast("control_pb2.ConfigReply", reply)

    def get_config(self, identifier: str) -> bytes:
        """The JSON of a configuration, part by part."""
        data = bytearray()
        while True:
            request = control_pb2.GetConfig(
                request_id=messages.new_request_id(), identifier=identifier, offset=len(data)
            )
            [reply] = self._ask_new_kind([request], "Reading the channels of a session")
            part = cast("control_pb2.ConfigPart", reply)
            self._forget_reply(request.request_id)
            data += part.data
            if len(data) >= part.size_bytes or not part.data:
                return bytes(data)

    def _forget_reply(self, request_id: str) -> None:
        """Remove a large reply that was read. Where the ACL is older or Redis does not answer it expires soon."""
        with contextlib.suppress(redis.exceptions.NoPermissionError, *retry.REDIS_ERRORS):
            self._redis.unlink(self._keys.reply(request_id))

    def _with_payload(self, request: messages.Request) -> messages.Request:
        """A request that fits into a message: the text of a large one is stored in pieces first."""
        if (
            not isinstance(request, control_pb2.OpenSession | control_pb2.UpdateSession | control_pb2.PublishConfig)
            or request.ByteSize() <= limits.CONTROL_MAX_BYTES - OVERHEAD_BYTES
        ):
            return request
        field, max_pieces = _PAYLOADS[type(request)]
        named, pieces = payload.split(messages.new_request_id(), getattr(request, field).encode(), max_pieces)
        for piece in pieces:
            piece.request_id = messages.new_request_id()
        self._ask_new_kind(pieces, "Session JSON over 255 KiB")
        small = type(request)()
        small.CopyFrom(request)  # type: ignore[arg-type]
        small.ClearField(field)
        small.payload.CopyFrom(named)
        return small

    def _ask_new_kind(self, requests: Sequence[messages.Request], what: str) -> list[messages.ReplyBody]:
        """Send requests that older supervisors drop, and give their replies. Raises the first error."""
        retry.ride_out(self._url, lambda: self.supervisors.require(NEEDED_RELEASE, what), timeout_s=self._timeout_s)
        outcomes = self.ask_all(requests)
        for outcome in outcomes:
            if isinstance(outcome, errors.RequestLost) and not self.supervisors.are_versions_known:
                raise too_old(what, NEEDED_RELEASE, "none that knows this request has answered") from outcome
            if isinstance(outcome, errors.RtaError):
                raise outcome
        return cast("list[messages.ReplyBody]", outcomes)

    def _serve(self, page: Sequence[_PendingRequest]) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        policy = retry.RetryPolicy(self._url, timeout_s=self._timeout_s)
        presence = _SupervisorPresence(self.supervisors, self._url, self._timeout_s)
        while unanswered := [request for request in page if request.outcome is None]:
            try:
                presence.check()
                self._send(unanswered)
                policy.reset()
                self._wait_for_replies(unanswered, presence, deadline_s)
                # A supervisor that was away for longer than control.pickup_s takes requests for given up.
                if time.monotonic() < deadline_s:
                    for request in unanswered:
                        if isinstance(request.outcome, errors.RequestExpired):
                            request.renew()
            except retry.REDIS_ERRORS as error:
                policy.wait(error)

    def _send(self, page: Sequence[_PendingRequest]) -> None:
        control_stream = self._keys.requests(self._principal)
        entry_ids = append_messages(self._redis, control_stream, [request.raw for request in page])
        for request, entry_id in zip(page, entry_ids, strict=True):
            request.entry_id = entry_id

    def _wait_for_replies(
        self, page: Sequence[_PendingRequest], presence: "_SupervisorPresence", deadline_s: float
    ) -> None:
        while unanswered := [request for request in page if request.outcome is None]:
            first = unanswered[0]
            if (remaining_s := deadline_s - time.monotonic()) <= 0:
                self._cancel_opens(unanswered)
                raise presence.timeout_error(first.request, first.identity)
            # Read before the wait: the supervisor removes a request only after it has written the reply.
            is_pending = self._redis.xrange(self._keys.requests(self._principal), first.entry_id, first.entry_id)
            block_s = min(BLOCK_S, remaining_s) if is_pending else SHORTEST_BLOCK_S
            self._take_replies(unanswered, block_s)
            if first.outcome is None:
                if not is_pending:
                    first.outcome = errors.RequestLost(identity=first.identity)
                presence.check()

    def _cancel_opens(self, page: Sequence[_PendingRequest]) -> None:
        """Take back opens that nobody waits for any more. Served later, they would leave a session without a writer,
        and the identity would be used up by the time the job is started again."""
        raw = [
            messages.pack(
                control_pb2.CancelRequest(
                    request_id=messages.new_request_id(), target_request_id=request.request.request_id
                )
            )
            for request in page
            if isinstance(request.request, control_pb2.OpenSession)
        ]
        with contextlib.suppress(*retry.REDIS_ERRORS):
            append_messages(self._redis, self._keys.requests(self._principal), raw)

    def _take_replies(self, unanswered: Sequence[_PendingRequest], block_s: float) -> None:
        """Wait for the reply to the first request, and take those to the others that are there by then."""
        is_any_there = self._take(unanswered[:1], block_s)
        others = iter(unanswered[1:])
        while is_any_there and (some := list(itertools.islice(others, REPLIES_AT_A_TIME))):
            is_any_there = self._take(some, SHORTEST_BLOCK_S)

    def _take(self, some: Sequence[_PendingRequest], block_s: float) -> bool:
        """Take replies, each of which is waited for in its turn. Gives whether there was any."""
        replies = [self._keys.reply(request.request.request_id) for request in some]
        # Moved onto itself: the reply stays in the list for a request that is sent again.
        commands = [("BLMOVE", key, key, "LEFT", "RIGHT", block_s) for key in replies]
        for request, raw in zip(some, redis_client.execute_all(self._redis, commands), strict=True):
            if raw is not None:
                request.outcome = _outcome(request.request, bytes(raw))
        return any(request.outcome is not None for request in some)


class _SupervisorPresence:
    """Whether a supervisor runs while requests wait for one. One line of the log says when none does."""

    def __init__(self, supervisors: Supervisors, url: str, timeout_s: float) -> None:
        self._supervisors = supervisors
        self._url = redis_url.redact(url)
        self._timeout_s = timeout_s
        self._is_running = True
        self._is_logged = False

    def check(self) -> None:
        """Look whether one runs. Raises where it is of no use to wait for one."""
        self._is_running = self._supervisors.check()
        if not self._is_running and not self._is_logged:
            self._is_logged = True
            retry.log.warning(
                "No supervisor is running against %s at the moment. Waiting for one, at most %.0f s",
                *(self._url, self._timeout_s),
            )

    def timeout_error(self, request: messages.Request, identity: str) -> errors.RtaError:
        """The error for a request without a reply at its deadline."""
        if not self._is_running:
            return errors.NoSupervisor(url=self._url, prefix=self._supervisors.prefix)
        return errors.NoReply(request=type(request).__name__, identity=identity, timeout_s=self._timeout_s)


def append_commands(key: str, messages_: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """The commands that append messages to a control stream."""
    # Bounded, so that writers without a supervisor do not fill the memory; what is evicted unread is reported.
    bound = ("MAXLEN", "~", limits.CONTROL_MAX_ENTRIES)
    return [("XADD", key, *bound, "*", keys.CONTROL_FIELD, raw) for raw in messages_]


def append_messages(client: redis.Redis, key: str, messages_: Sequence[bytes]) -> list[bytes]:
    """Append messages to a control stream in one round trip, and give the ids of their entries."""
    return cast("list[bytes]", redis_client.execute_all(client, append_commands(key, messages_)))


def _outcome(request: messages.Request, raw: bytes) -> RequestOutcome:
    try:
        if isinstance(request, messages.LookUp):
            return cast("control_pb2.SessionReply", messages.unpack_page(raw))  # `look_up` knows what it is
        if isinstance(request, messages.ConfigRequest):
            is_publish = isinstance(request, control_pb2.PublishConfig)
            unpack = messages.unpack_config if is_publish else messages.unpack_config_part
            return cast("control_pb2.SessionReply", unpack(raw))  # `publish` and `get_config` know what it is
        return messages.unpack_reply(raw)
    except errors.RtaError as error:
        return error
