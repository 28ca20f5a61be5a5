"""The handle of an open session: what its owner does with it, and the heartbeat that keeps it open."""

import threading
import weakref
from types import TracebackType
from typing import Any, Final, Protocol, Self

from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import retry
from rta_writers.options.target import Target

HEARTBEAT_S: Final = 15.0


class ClosedSession:
    """How a session ended."""

    def __init__(self, identity: str, state: State, totals: Totals, missing: Totals | None) -> None:
        self.identity = identity
        self.state = state
        self.totals = totals
        self.missing = missing


class SessionRequests(Protocol):
    """What a handle asks of the client that made it."""

    url: str

    def update(self, identity: str, *, state: str = "", **properties: Any) -> State: ...

    def close(self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession: ...

    def report(self, message: messages.Report) -> None: ...


class Session:
    """An open session. As a context manager it is closed at the end of the block, and failed if the block raised."""

    def __init__(self, client: SessionRequests, target: Target) -> None:
        self.target = target
        self.ended: ClosedSession | None = None
        self._client = client
        self._over = threading.Event()
        message = control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id)
        # The thread does not hold the session: one that nobody holds any more has no writer, and its heart stops.
        weakref.finalize(self, self._over.set)
        self._heartbeat_thread = threading.Thread(
            target=_send_heartbeats,
            args=(client, message, self._over),
            name=f"rta-heartbeat-{target.identity}",
            daemon=True,
        )
        self._heartbeat_thread.start()

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
            self._heartbeat_thread.join()
        return self.ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)


def _send_heartbeats(client: SessionRequests, message: control_pb2.Heartbeat, over: threading.Event) -> None:
    while not over.wait(HEARTBEAT_S):
        try:
            client.report(message)
        except retry.REDIS_ERRORS as error:
            # The next one may get through; silence is what the supervisor watches for.
            retry.log.warning("no heartbeat of session %r: %s", message.identity, retry.to_rta_error(client.url, error))
