"""Sessions for a driver: open, keep alive, close. The supervisor does the work; this asks it and waits."""

import json
import time
from typing import Any, Final, cast

from rta_wire import errors, keys, limits, redis_url, session
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import redis_client, retry
from rta_writers.control import session as control_session
from rta_writers.options.target import Target

DEFAULT_TIMEOUT_S: Final = 60.0

BLOCK_S: Final = 2.0
SHORTEST_BLOCK_S: Final = 0.01


class SessionClient:
    """Asks a supervisor through Redis. Cheap to make, safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        principal: str = keys.DEFAULT_PRINCIPAL,
        key_prefix: str = keys.Keys().prefix,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.url = url
        self.principal = keys.check_principal(principal)
        self.timeout_s = timeout_s
        self._keys = keys.Keys(prefix=key_prefix)
        self._redis = redis_client.connect(url)

    def open(self, identity: str, *, stream: str, external_id: str = "", **properties: Any) -> control_session.Session:
        """A session that is open, new or not. `properties` go into its JSON: identifier, details, type and so on.

        `external_id` is a name of yours for it: for two days it gives the session that it was first used for.
        """
        keys.check_identity(identity)
        keys.check_stream_name(stream)
        document = session.dump(session.build(identity, **properties))
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
    """The same: reads better in a `with` statement."""

    def update(self, identity: str, *, state: str = "", **properties: Any) -> State:
        """Other properties of a session, closed or not; None takes one away. `state` may be `waiting` or `open`."""
        request = control_pb2.UpdateSession(
            request_id=messages.new_request_id(),
            identity=identity,
            properties_json=json.dumps(properties, allow_nan=False),
            state=state,
        )
        return State(self.ask(request).state)

    def close(
        self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None, request_id: str = ""
    ) -> control_session.ClosedSession:
        """End a session. With `expected` it waits for that much, and is called truncated if that never comes."""
        request = control_pb2.CloseSession(
            request_id=request_id or messages.new_request_id(), identity=identity, state=state
        )
        if expected is not None:
            request.expected.CopyFrom(expected.to_message())
        reply = self.ask(request)
        missing = Totals.from_message(reply.missing) if reply.HasField("missing") else None
        return control_session.ClosedSession(identity, State(reply.state), Totals.from_message(reply.totals), missing)

    def cancel(self, request_id: str) -> None:
        """Take back a request that has not been answered. Who waits for it gets RequestCancelled."""
        self.ask(control_pb2.CancelRequest(request_id=messages.new_request_id(), target_request_id=request_id))

    def wait(self, identity: str, state: str, *, timeout_s: float) -> None:
        """Until a session is in a state; at once where it is. One that ended in another state can't get there."""
        deadline_s = time.monotonic() + timeout_s
        current: State | None = None
        borne = retry.RetryPolicy(self.url, timeout_s=timeout_s)
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                with self._redis.pubsub(ignore_subscribe_messages=False) as announcements:
                    announcements.subscribe(self._keys.state_channel(identity))
                    while left_s > 0:
                        announcements.get_message(timeout=min(BLOCK_S, left_s))
                        if (current := self._state_of(identity)) == state:
                            return
                        if current is not None and current.is_closed:
                            raise errors.SessionClosed(identity=identity, state=current.value)
                        left_s = deadline_s - time.monotonic()
            except retry.REDIS_ERRORS as error:
                borne.wait(error)
        raise errors.NotInTime(identity=identity, state=current or "unknown", wanted=state, timeout_s=timeout_s)

    def _state_of(self, identity: str) -> State | None:
        raw = cast("bytes | None", self._redis.hget(self._keys.session_state(identity), "state"))
        return None if raw is None else State(raw.decode())

    def report(self, message: messages.Report) -> None:
        """Send a report. Nobody answers."""
        self._send(self._keys.reports(self.principal), messages.pack(message))

    def ask(self, request: messages.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply. A short outage of Redis is waited out: a request may come twice."""
        raw = messages.pack(messages.check(request))
        deadline_s = time.monotonic() + self.timeout_s
        borne = retry.RetryPolicy(self.url, timeout_s=self.timeout_s)
        while True:
            try:
                self._check_supervisor()
                entry_id = self._send(self._keys.requests(self.principal), raw)
                return messages.unpack_reply(self._wait_for_reply(request, entry_id, deadline_s))
            except retry.REDIS_ERRORS as error:
                borne.wait(error)

    def _send(self, key: str, raw: bytes) -> bytes:
        # Bounded, so that writers without a supervisor do not fill the memory; what is evicted unread is reported.
        entry_id = self._redis.xadd(key, {keys.CONTROL_FIELD: raw}, maxlen=limits.CONTROL_MAX_ENTRIES, approximate=True)
        return cast("bytes", entry_id)

    def _wait_for_reply(self, request: messages.Request, entry_id: bytes, deadline_s: float) -> bytes:
        key = self._keys.reply(request.request_id)
        identity = "" if isinstance(request, control_pb2.CancelRequest) else request.identity
        while (left_s := deadline_s - time.monotonic()) > 0:
            # Read before the wait: a handled request is gone only after its reply is there.
            is_there = self._redis.xrange(self._keys.requests(self.principal), entry_id, entry_id)
            # Moved onto itself: the reply stays there for whoever asks again.
            block_s = min(BLOCK_S, left_s) if is_there else SHORTEST_BLOCK_S
            raw = self._redis.execute_command("BLMOVE", key, key, "LEFT", "RIGHT", block_s)
            if raw is not None:
                return bytes(raw)
            if not is_there:
                raise errors.RequestLost(identity=identity)
            self._check_supervisor()
        raise errors.NoReply(request=type(request).__name__, identity=identity, timeout_s=self.timeout_s)

    def _check_supervisor(self) -> None:
        nodes = cast("list[bytes]", self._redis.zrange(self._keys.nodes(), 0, -1))
        if not any(self._redis.exists(self._keys.node(node.decode())) for node in nodes):
            raise errors.NoSupervisor(url=redis_url.redact(self.url))
