"""Requests to the supervisor: sessions are opened, updated and closed by a message and its reply, through Redis."""

import time
from typing import Any, Final, cast

import redis

from rta_wire import errors, keys, limits, name_checks, redis_url, session
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import redis_client, retry
from rta_writers.control import session as control_session
from rta_writers.options import arguments
from rta_writers.options.target import Target

DEFAULT_TIMEOUT_S: Final = 60.0
BLOCK_S: Final = 2.0
SHORTEST_BLOCK_S: Final = 0.01


class SessionClient:
    """A client of the supervisor. Cheap to make, safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        principal: str = keys.DEFAULT_PRINCIPAL,
        key_prefix: str = keys.Keys().prefix,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.url = arguments.text("url", url)
        self.principal = name_checks.check_principal(arguments.text("principal", principal))
        self.key_prefix = arguments.not_empty("key_prefix", key_prefix)
        self.timeout_s = arguments.seconds("timeout_s", timeout_s)
        self._keys = keys.Keys(prefix=key_prefix)
        self._redis = redis_client.connect(url)

    def __repr__(self) -> str:
        return f"SessionClient({redis_url.redact(self.url)!r}, principal={self.principal!r})"

    def open(self, identity: str, *, stream: str, external_id: str = "", **properties: Any) -> control_session.Session:
        """Open a session, or get the one of this name that is open. `properties` go into its JSON: identifier, type...

        `external_id` is a name that the caller chose: for two days it gives the session that it was first used for.
        """
        name_checks.check_identity(arguments.text("identity", identity))
        name_checks.check_stream_name(arguments.text("stream", stream))
        arguments.text("external_id", external_id)
        document = session.dump(session.build(identity, **arguments.json_object(properties)))
        request = control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=identity,
            stream=stream,
            session_json=document.decode(),
            external_id=external_id,
        )
        reply = self.ask(request)
        target = Target(
            self.url, reply.identity, reply.stream, reply.stream_session_id, self.principal, self._keys.prefix
        )
        return control_session.Session(self, target)

    session = open
    """Another name of `open`, which reads better in a `with` statement."""

    def update(self, identity: str, *, state: str = "", **properties: Any) -> State:
        """Set properties of a session, closed or not; None removes one. `state` may be `waiting` or `open`."""
        request = control_pb2.UpdateSession(
            request_id=messages.new_request_id(),
            identity=arguments.text("identity", identity),
            properties_json=session.dump_properties(arguments.json_object(properties)),
            state=arguments.text("state", state),
        )
        return State(self.ask(request).state)

    def close(
        self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None, request_id: str = ""
    ) -> control_session.ClosedSession:
        """End a session. With `expected` it waits for that much, and ends as truncated where that never arrives."""
        request = control_pb2.CloseSession(
            request_id=arguments.text("request_id", request_id) or messages.new_request_id(),
            identity=arguments.text("identity", identity),
            state=arguments.text("state", state),
        )
        if (totals := arguments.totals("expected", expected)) is not None:
            request.expected.CopyFrom(totals.to_message())
        reply = self.ask(request)
        missing = Totals.from_message(reply.missing) if reply.HasField("missing") else None
        return control_session.ClosedSession(identity, State(reply.state), Totals.from_message(reply.totals), missing)

    def cancel(self, request_id: str) -> None:
        """Take back a request that has no reply yet. The call that waits for it raises RequestCancelled."""
        target = arguments.text("request_id", request_id)
        self.ask(control_pb2.CancelRequest(request_id=messages.new_request_id(), target_request_id=target))

    def wait(self, identity: str, state: str, *, timeout_s: float) -> None:
        """Block until a session is in a state. Raises where it has ended in another one, which it can't leave."""
        name_checks.check_identity(arguments.text("identity", identity))
        arguments.one_of("state", state, State)
        timeout_s = arguments.seconds("timeout_s", timeout_s)
        deadline_s = time.monotonic() + timeout_s
        current: State | None = None
        policy = retry.RetryPolicy(self.url, timeout_s=timeout_s)
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=False) as state_changes:
                    state_changes.subscribe(self._keys.state_channel(identity))
                    while remaining_s > 0:
                        state_changes.get_message(timeout=min(BLOCK_S, remaining_s))
                        if (current := self._read_state(identity)) == state:
                            return
                        if current is not None and current.is_closed:
                            raise errors.SessionClosed(identity=identity, state=current.value)
                        remaining_s = deadline_s - time.monotonic()
            except retry.REDIS_ERRORS as error:
                policy.wait(error)
        raise errors.NotInTime(identity=identity, state=current or "unknown", wanted=state, timeout_s=timeout_s)

    def _read_state(self, identity: str) -> State | None:
        raw = cast("bytes | None", self._redis.hget(self._keys.session_state(identity), keys.STATE))
        return None if raw is None else State(raw.decode())

    def report(self, message: messages.Report) -> None:
        """Send a report. It has no reply."""
        if not isinstance(message, messages.Report):
            raise arguments.refuse("message", message, "a Progress or a Heartbeat of rta_wire.pb.control_pb2")
        append_message(self._redis, self._keys.reports(self.principal), messages.pack(message))

    def ask(self, request: messages.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply. Repeats it after a short outage: the supervisor may get it twice."""
        if not isinstance(request, messages.Request):
            raise arguments.refuse("request", request, "a request of rta_wire.pb.control_pb2")
        raw = messages.pack(messages.check(request))
        deadline_s = time.monotonic() + self.timeout_s
        policy = retry.RetryPolicy(self.url, timeout_s=self.timeout_s)
        while True:
            try:
                self._check_supervisor()
                entry_id = append_message(self._redis, self._keys.requests(self.principal), raw)
                return messages.unpack_reply(self._wait_for_reply(request, entry_id, deadline_s))
            except retry.REDIS_ERRORS as error:
                policy.wait(error)

    def _wait_for_reply(self, request: messages.Request, entry_id: bytes, deadline_s: float) -> bytes:
        key = self._keys.reply(request.request_id)
        identity = "" if isinstance(request, control_pb2.CancelRequest) else request.identity
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            # Read before the wait: the supervisor removes a request only after it has written the reply.
            is_pending = self._redis.xrange(self._keys.requests(self.principal), entry_id, entry_id)
            # Moved onto itself: the reply stays in the list for a repeated request.
            block_s = min(BLOCK_S, remaining_s) if is_pending else SHORTEST_BLOCK_S
            raw = self._redis.execute_command("BLMOVE", key, key, "LEFT", "RIGHT", block_s)
            if raw is not None:
                return bytes(raw)
            if not is_pending:
                raise errors.RequestLost(identity=identity)
            self._check_supervisor()
        raise errors.NoReply(request=type(request).__name__, identity=identity, timeout_s=self.timeout_s)

    def _check_supervisor(self) -> None:
        nodes = cast("list[bytes]", self._redis.zrange(self._keys.nodes(), 0, -1))
        if not any(self._redis.exists(self._keys.node(node.decode())) for node in nodes):
            raise errors.NoSupervisor(url=redis_url.redact(self.url))


def append_message(client: redis.Redis, key: str, raw: bytes) -> bytes:
    """Append a message to a control stream, and give the id of its entry."""
    # Bounded, so that writers without a supervisor do not fill the memory; what is evicted unread is reported.
    entry_id = client.xadd(key, {keys.CONTROL_FIELD: raw}, maxlen=limits.CONTROL_MAX_ENTRIES, approximate=True)
    return cast("bytes", entry_id)
