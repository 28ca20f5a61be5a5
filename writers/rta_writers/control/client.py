"""Sessions for a driver: open, keep alive, close. The supervisor does the work; this asks it and waits."""

import json
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Final, Self, cast

from rta_wire import credentials, errors, keys, limits, session
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import redis_client, retry
from rta_writers.options.target import Target

DEFAULT_TIMEOUT_S: Final = 60.0
HEARTBEAT_S: Final = 15.0
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

    def open(self, identity: str, *, stream: str, external_id: str = "", **properties: Any) -> "Session":
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
        return Session(self, target)

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
    ) -> "ClosedSession":
        """End a session. With `expected` it waits for that much, and is called truncated if that never comes."""
        request = control_pb2.CloseSession(
            request_id=request_id or messages.new_request_id(), identity=identity, state=state
        )
        if expected is not None:
            request.expected.CopyFrom(expected.to_message())
        reply = self.ask(request)
        missing = Totals.from_message(reply.missing) if reply.HasField("missing") else None
        return ClosedSession(identity, State(reply.state), Totals.from_message(reply.totals), missing)

    def cancel(self, request_id: str) -> None:
        """Take back a request that has not been answered. Who waits for it gets RequestCancelled."""
        self.ask(control_pb2.CancelRequest(request_id=messages.new_request_id(), target_request_id=request_id))

    def wait(self, identity: str, state: str, *, timeout_s: float) -> None:
        """Until a session is in a state; at once where it is. One that ended in another state can't get there."""
        deadline_s = time.monotonic() + timeout_s
        current: State | None = None
        borne = retry.Patience(self.url, most_s=timeout_s)
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
            except retry.Trouble as error:
                borne.bear(error)
        raise errors.NotInTime(identity=identity, state=current or "unknown", wanted=state, timeout_s=timeout_s)

    def _state_of(self, identity: str) -> State | None:
        raw = cast("bytes | None", self._redis.hget(self._keys.state(identity), "state"))
        return None if raw is None else State(raw.decode())

    def report(self, message: messages.Report) -> None:
        """Send a report. Nobody answers."""
        self._send(self._keys.reports(self.principal), messages.pack(message))

    def ask(self, request: messages.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply. A short outage of Redis is waited out: a request may come twice."""
        raw = messages.pack(messages.check(request))
        deadline_s = time.monotonic() + self.timeout_s
        borne = retry.Patience(self.url, most_s=self.timeout_s)
        while True:
            try:
                self._check_supervisor()
                entry_id = self._send(self._keys.requests(self.principal), raw)
                return messages.unpack_reply(self._wait_for_reply(request, entry_id, deadline_s))
            except retry.Trouble as error:
                borne.bear(error)

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
            raise errors.NoSupervisor(url=credentials.safe(self.url))


class ClosedSession:
    """How a session ended."""

    def __init__(self, identity: str, state: State, totals: Totals, missing: Totals | None) -> None:
        self.identity = identity
        self.state = state
        self.totals = totals
        self.missing = missing


class Session:
    """An open session. As a context manager it is closed at the end of the block, and failed if the block raised."""

    def __init__(self, client: SessionClient, target: Target) -> None:
        self.target = target
        self.ended: ClosedSession | None = None
        self._client = client
        self._over = threading.Event()
        message = control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id)
        # The thread does not hold the session: one that nobody holds any more has no writer, and its heart stops.
        weakref.finalize(self, self._over.set)
        self._heart = threading.Thread(
            target=_beat, args=(client, message, self._over), name=f"rta-heartbeat-{target.identity}", daemon=True
        )
        self._heart.start()

    @property
    def identity(self) -> str:
        return self.target.identity

    @property
    def options(self) -> dict[str, str]:
        """For `.options(**session.options)` of a Spark writer."""
        return self.target.options()

    def update(self, **properties: Any) -> None:
        """Other properties of the session; None takes one away."""
        self._client.update(self.identity, **properties)

    def pause(self) -> None:
        """Tell readers that acquisition pauses. Bursts are still taken."""
        self._client.update(self.identity, state=State.WAITING)

    def resume(self) -> None:
        """Tell readers that acquisition goes on."""
        self._client.update(self.identity, state=State.OPEN)

    def close(self, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession:
        """End the session. Repeating it changes nothing."""
        if self.ended is None:
            self.ended = self._client.close(self.identity, state=state, expected=expected)
            self._over.set()
            self._heart.join()
        return self.ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)


def _beat(client: SessionClient, message: control_pb2.Heartbeat, over: threading.Event) -> None:
    while not over.wait(HEARTBEAT_S):
        try:
            client.report(message)
        except retry.Trouble as error:
            # The next one may get through; silence is what the supervisor watches for.
            retry.log.warning("no heartbeat of session %r: %s", message.identity, retry.named(client.url, error))
