"""Sessions for a driver: open, keep alive, close. The supervisor does the work; this asks it and waits."""

import threading
import time
from types import TracebackType
from typing import Any, Final, Self, cast

import redis

from rta_wire import control, control_pb2, errors, keys, session
from rta_wire.session import State
from rta_wire.totals import Totals
from rta_writers import connection
from rta_writers.target import Target

DEFAULT_TIMEOUT_S: Final = 60.0
HEARTBEAT_S: Final = 15.0
BLOCK_S: Final = 2.0


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
        self._redis = connection.connect(url)

    def open(self, identity: str, *, stream: str, **properties: Any) -> "Session":
        """A session that is open, new or not. `properties` go into its JSON: identifier, details, type and so on."""
        keys.check_identity(identity)
        keys.check_stream_name(stream)
        document = session.dump(session.build(identity, **properties))
        request = control_pb2.OpenSession(
            request_id=control.new_request_id(),
            identity=identity,
            stream=stream,
            session_json=document.decode(),
        )
        reply = self.ask(request)
        target = Target(
            self.url, reply.identity, reply.stream, reply.stream_session_id, self.principal, self._keys.prefix
        )
        return Session(self, target)

    session = open
    """The same: reads better in a `with` statement."""

    def close(self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None) -> "ClosedSession":
        """End a session. With `expected` it waits for that much, and is called truncated if that never comes."""
        request = control_pb2.CloseSession(request_id=control.new_request_id(), identity=identity, state=state)
        if expected is not None:
            request.expected.CopyFrom(expected.to_message())
        reply = self.ask(request)
        return ClosedSession(identity, State(reply.state), Totals.from_message(reply.totals))

    def report(self, message: control.Report) -> None:
        """Send a report. Nobody answers."""
        self._redis.xadd(self._keys.reports(self.principal), {keys.CONTROL_FIELD: control.pack(message)})

    def ask(self, request: control.Request) -> control_pb2.SessionReply:
        """Send a request and wait for its reply."""
        raw = control.pack(control.check(request))
        deadline_s = time.monotonic() + self.timeout_s
        try:
            self._check_supervisor()
            self._redis.xadd(self._keys.requests(self.principal), {keys.CONTROL_FIELD: raw})
        except connection.Outage as error:
            raise connection.unreachable(self.url, error) from error
        return control.unpack_reply(self._wait_for_reply(request, deadline_s))

    def _wait_for_reply(self, request: control.Request, deadline_s: float) -> bytes:
        key = self._keys.reply(request.request_id)
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                # Moved onto itself: the reply stays there for whoever asks again.
                raw = self._redis.execute_command("BLMOVE", key, key, "LEFT", "RIGHT", min(BLOCK_S, left_s))
            except connection.Outage:
                time.sleep(min(BLOCK_S, left_s) / 10)
                continue
            if raw is not None:
                return bytes(raw)
        raise errors.NoReply(request=type(request).__name__, identity=request.identity, timeout_s=self.timeout_s)

    def _check_supervisor(self) -> None:
        nodes = cast("list[bytes]", self._redis.zrange(self._keys.nodes(), 0, -1))
        if not any(self._redis.exists(self._keys.node(node.decode())) for node in nodes):
            raise errors.NoSupervisor(url=self.url.rpartition("@")[2])


class ClosedSession:
    """How a session ended."""

    def __init__(self, identity: str, state: State, totals: Totals) -> None:
        self.identity = identity
        self.state = state
        self.totals = totals


class Session:
    """An open session. As a context manager it is closed at the end of the block, and failed if the block raised."""

    def __init__(self, client: SessionClient, target: Target) -> None:
        self.target = target
        self.ended: ClosedSession | None = None
        self._client = client
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, name=f"rta-heartbeat-{target.identity}", daemon=True)
        self._heart.start()

    @property
    def identity(self) -> str:
        return self.target.identity

    @property
    def options(self) -> dict[str, str]:
        """For `.options(**session.options)` of a Spark writer."""
        return self.target.options()

    def close(self, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession:
        """End the session. Repeating it changes nothing."""
        if self.ended is None:
            self.ended = self._client.close(self.identity, state=state, expected=expected)
            self._over.set()
            self._heart.join()
        return self.ended

    def _beat(self) -> None:
        message = control_pb2.Heartbeat(identity=self.identity, stream_session_id=self.target.stream_session_id)
        while not self._over.wait(HEARTBEAT_S):
            try:
                self._client.report(message)
            except (*connection.Outage, redis.exceptions.RedisError):
                continue  # the next one may get through; silence is what the supervisor watches for

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)
