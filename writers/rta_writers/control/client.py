"""Requests to the supervisor: sessions are opened, updated and closed by a message and its reply, through Redis."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn, cast

from rta_wire import errors, keys, limits, name_checks, redis_url, session
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import FINAL_STATES, State
from rta_writers.connection import redis_client, retry
from rta_writers.control import look, requests
from rta_writers.control import session as control_session
from rta_writers.control.channels import Channels
from rta_writers.control.config_publisher import ConfigPublisher
from rta_writers.control.session_info import SessionInfo
from rta_writers.options import arguments
from rta_writers.options.target import REQUEST_TIMEOUT_S, Target

OPEN_ATTEMPTS: Final = 64
"""How often a session is opened with channels while other clients add some: each time one of them succeeds."""
BLOCK_S: Final = 2.0


class SessionClient:
    """A client of the supervisor. Cheap to make, safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        principal: str = keys.DEFAULT_PRINCIPAL,
        key_prefix: str = keys.Keys().prefix,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.url = arguments.text("url", url)
        self.principal = name_checks.check_principal(arguments.text("principal", principal))
        self.key_prefix = arguments.not_empty("key_prefix", key_prefix)
        self.timeout_s = arguments.seconds("timeout_s", timeout_s)
        self._keys = keys.Keys(prefix=key_prefix)
        self._redis = redis_client.connect(url)
        self._requests = requests.RequestSender(self._redis, url, self._keys, principal, timeout_s=self.timeout_s)
        self.configs = ConfigPublisher(self._requests, url, self._keys, principal)

    def __reduce__(self) -> NoReturn:
        raise errors.Usage(
            reason="A SessionClient stays in the process that made it: make one in each task, or pass the task the "
            "options of an open session, session.options"
        )

    def __repr__(self) -> str:
        return f"SessionClient({redis_url.redact(self.url)!r}, principal={self.principal!r})"

    def open(
        self,
        /,
        identity: str,
        *,
        stream: str,
        external_id: str = "",
        channels: Channels | None = None,
        **properties: Any,
    ) -> control_session.Session:
        """Open a session, or get the one of this name that is open. `properties` go into its JSON: identifier, type...

        `external_id` is a name that the caller chose. It gives the session that it was first used for while that is
        open, and an error for two days after its end. `channels` says what the channels are; where the session, or for
        a list of columns its stream, has some already, they keep their ids.
        """
        name_checks.check_identity(arguments.text("identity", identity))
        name_checks.check_stream_name(arguments.text("stream", stream))
        if arguments.text("external_id", external_id):
            name_checks.check_external_id(external_id)
        document = session.dump(session.build(identity, **arguments.json_object(properties)))
        request = control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=identity,
            stream=stream,
            session_json=document.decode(),
            external_id=external_id,
        )
        if channels is None:
            reply = self.ask(request)
        else:
            reply, channels = self._open_with(request, channels)
        names = self.registered_keys()
        target = Target(
            *(self.url, reply.identity, reply.stream, reply.stream_session_id),
            *(self.principal, names.prefix, names.session_template),
        )
        return control_session.Session(self, target, channels)

    session = open
    """Another name of `open`, which reads better in a `with` statement."""

    def _open_with(
        self, request: control_pb2.OpenSession, wanted: Channels
    ) -> tuple[control_pb2.SessionReply, Channels]:
        """Open a session with a list of channels. Gives that list too, with the ids that the session has."""
        for attempts_left in reversed(range(OPEN_ATTEMPTS)):
            channels = self.configs.for_session(
                wanted, identity=request.identity, external_id=request.external_id, stream=request.stream
            )
            try:
                return self._ask_to_open(request, channels), channels
            except errors.ChannelsChanged:
                # Another client has added channels since the list was read: the new ones get ids after those.
                if not attempts_left:
                    raise
                request.request_id = messages.new_request_id()
        raise AssertionError

    def _ask_to_open(self, request: control_pb2.OpenSession, channels: Channels) -> control_pb2.SessionReply:
        request.config_identifier = self.configs.publish(channels)
        try:
            return self.ask(request)
        except errors.UnknownConfig:
            # It was published by this client before, and was lost since with Redis and the catalogue.
            self.configs.publish(channels, again=True)
            request.request_id = messages.new_request_id()
            return self.ask(request)

    def update(
        self, /, identity: str | None = None, *, external_id: str | None = None, state: str = "", **properties: Any
    ) -> State:
        """Set properties of a session, closed or not; None removes one. `state` may be `waiting` or `open`.

        The session is named by its identity or by the external id that this principal gave it, as in the other calls.
        """
        request = control_pb2.UpdateSession(
            request_id=messages.new_request_id(),
            identity=self._identity(identity, external_id),
            properties_json=session.dump_properties(arguments.json_object(properties)),
            state=arguments.text("state", state),
        )
        return State(self.ask(request).state)

    def close(
        self,
        identity: str | None = None,
        *,
        external_id: str | None = None,
        state: str = State.CLOSED,
        expected: Totals | None = None,
        request_id: str = "",
    ) -> control_session.ClosedSession:
        """End a session. With `expected` it waits for that much, and ends as truncated where that never arrives."""
        identity = self._identity(identity, external_id)
        request = control_pb2.CloseSession(
            request_id=arguments.text("request_id", request_id) or messages.new_request_id(),
            identity=identity,
            state=arguments.text("state", state),
        )
        if (totals := arguments.totals("expected", expected)) is not None:
            request.expected.CopyFrom(totals.to_message())
        return _closed_session(identity, self.ask(request))

    def close_all(
        self, identities: Sequence[str], *, state: str = State.CLOSED
    ) -> dict[str, control_session.ClosedSession | errors.RtaError]:
        """End many sessions at a time. Gives the end of each, or the error that kept it from ending."""
        if not isinstance(identities, (list, tuple)):
            raise arguments.refuse("identities", identities, "a list of identities")
        arguments.one_of("state", state, sorted(FINAL_STATES))
        closes = [
            control_pb2.CloseSession(
                request_id=messages.new_request_id(), identity=arguments.text("identities", identity), state=state
            )
            for identity in identities
        ]
        return {
            identity: outcome if isinstance(outcome, errors.RtaError) else _closed_session(identity, outcome)
            for identity, outcome in zip(identities, self.ask_all(closes), strict=True)
        }

    def get(self, identity: str | None = None, *, external_id: str | None = None) -> SessionInfo:
        """A session as it stands now: one in Redis, else the newest of that name in the catalogue.

        A principal gets its own sessions, an operator all. Raises UnknownSession where there is none.
        """
        _check_names_one(identity, external_id)
        if identity is not None:
            name_checks.check_identity(arguments.text("identity", identity))
        else:
            name_checks.check_external_id(arguments.text("external_id", external_id))
        return look.get(self._requests, identity or "", external_id or "")

    def list(
        self,
        *,
        state: str | Sequence[str] = (),
        stream: str = "",
        text: str = "",
        since: str | datetime | int | None = None,
        until: str | datetime | int | None = None,
        details: Mapping[str, str] | None = None,
        limit: int | None = 100,
    ) -> Sequence[SessionInfo]:
        """Sessions of this principal that match everything, the newest first; an operator gets those of all.

        `text`: words in the identity, the identifier or the details. `stream`: a stream, or a source with all its days.
        `since`, `until`: sessions with data between them; a datetime, nanoseconds, or text as for the commands, such as
        `2026-11-02` or `2h`. `limit=None`: all of them.
        """
        details = {} if details is None else details
        query = look.build_query(state=state, stream=stream, text=text, since=since, until=until, details=details)
        if limit is not None:
            limit = arguments.whole_number("limit", limit, 1, limits.LIST_MAX_SESSIONS)
        return list(look.iter_sessions(self._requests, query, limit))

    def cancel(self, request_id: str) -> None:
        """Take back a request that has no reply yet. The call that waits for it raises RequestCancelled."""
        target = arguments.text("request_id", request_id)
        self.ask(control_pb2.CancelRequest(request_id=messages.new_request_id(), target_request_id=target))

    def wait(
        self,
        identity: str | None = None,
        state: str = State.CLOSED,
        *,
        external_id: str | None = None,
        timeout_s: float,
    ) -> None:
        """Block until a session is in a state. Raises where it has ended in another one, which it can't leave."""
        arguments.one_of("state", state, State)
        timeout_s = arguments.seconds("timeout_s", timeout_s)
        identity = self._identity(identity, external_id)
        deadline_s = time.monotonic() + timeout_s
        current: State | None = None
        outage: BaseException | None = None
        policy = retry.RetryPolicy(self.url, timeout_s=timeout_s)
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=False) as state_changes:
                    state_changes.subscribe(self._keys.state_channel(identity))
                    while remaining_s > 0:
                        state_changes.get_message(timeout=min(BLOCK_S, remaining_s))
                        current = self._read_state(identity)
                        policy.reset()
                        outage = None
                        if current == state:
                            return
                        if current is not None and current.is_closed:
                            raise errors.SessionClosed(identity=identity, state=current.value)
                        remaining_s = deadline_s - time.monotonic()
            except retry.REDIS_ERRORS as error:
                outage = error
                policy.wait(error)
        if outage is not None:
            raise retry.to_rta_error(self.url, outage) from outage
        raise errors.NotInTime(identity=identity, state=current or "unknown", wanted=state, timeout_s=timeout_s)

    def _identity(self, identity: str | None, external_id: str | None) -> str:
        """The identity of the session that a call names, either by that or by its external id.

        The supervisor is asked for the session of an external id: writers can't read where it is noted.
        """
        _check_names_one(identity, external_id)
        if identity is not None:
            return name_checks.check_identity(arguments.text("identity", identity))
        name = name_checks.check_external_id(arguments.text("external_id", external_id))
        request = control_pb2.UpdateSession(
            request_id=messages.new_request_id(), external_id=name, properties_json="{}"
        )
        try:
            return self.ask(request).identity
        except errors.BadName as error:
            # An older supervisor reads a message without an identity, and refuses that.
            raise errors.ExternalIdUnsupported from error

    def _read_state(self, identity: str) -> State | None:
        raw = cast("bytes | None", self._redis.hget(self.registered_keys().session_state(identity), keys.STATE))
        return None if raw is None else State(raw.decode())

    def report(self, message: messages.Report) -> None:
        """Send a report. It has no reply."""
        self.report_all([message])

    def report_all(self, reports: Iterable[messages.Report]) -> None:
        """Send reports in one round trip. They have no replies, and an outage of Redis is not waited out."""
        if packed := [messages.pack(_check_report(report)) for report in arguments.iterable("reports", reports)]:
            try:
                requests.append_messages(self._redis, self._keys.reports(self.principal), packed)
            except retry.REDIS_ERRORS as error:
                raise retry.to_rta_error(self.url, error) from error

    def ask(self, request: messages.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply. Raises the error that the supervisor replied."""
        return self._requests.ask(_check_request(request))

    def ask_all(self, requests_: Sequence[messages.Request]) -> Sequence[requests.RequestOutcome]:
        """Send many requests at a time and give the outcome of each: the reply, or the error that it names."""
        return self._requests.ask_all([_check_request(one) for one in arguments.iterable("requests_", requests_)])

    def registered_keys(self) -> keys.Keys:
        """The names of keys as the supervisors have them: they register the template of session keys."""
        if self._requests.supervisors.session_template is None:
            retry.ride_out(self.url, self._requests.supervisors.check, timeout_s=self.timeout_s)
        template = self._requests.supervisors.session_template or self._keys.session_template
        return keys.Keys(prefix=self._keys.prefix, session_template=template)


def _check_names_one(identity: str | None, external_id: str | None) -> None:
    if (identity is None) == (external_id is None):
        raise errors.Usage(reason="A session is named by its identity or by external_id=: say one of them")


def _check_report(report: Any) -> messages.Report:
    if not isinstance(report, messages.Report):
        raise arguments.refuse("message", report, "a Progress or a Heartbeat of rta_wire.pb.control_pb2")
    return report


def _check_request(request: Any) -> messages.Request:
    if not isinstance(request, messages.Request):
        raise arguments.refuse("request", request, "a request of rta_wire.pb.control_pb2")
    return request


def _closed_session(identity: str, reply: control_pb2.SessionReply) -> control_session.ClosedSession:
    missing = Totals.from_message(reply.missing) if reply.HasField("missing") else None
    return control_session.ClosedSession(identity, State(reply.state), Totals.from_message(reply.totals), missing)
