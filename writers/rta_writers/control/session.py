"""The handle of an open session, and the thread that keeps sessions open with heartbeats."""

import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol, Self

from rta_wire import errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_writers.connection import retry
from rta_writers.control.channels import Channels
from rta_writers.options.target import Target

HEARTBEAT_S: Final = 15.0


class ClosedSession:
    """The end of a session: its last state, its totals, and what was expected and did not arrive."""

    def __init__(self, identity: str, state: State, totals: Totals, missing: Totals | None) -> None:
        self.identity = identity
        self.state = state
        self.totals = totals
        self.missing = missing

    def __repr__(self) -> str:
        lacking = "" if self.missing is None else f", missing={self.missing.describe()}"
        return f"ClosedSession({self.identity!r}, state={self.state.value!r}, {self.totals.describe()}{lacking})"


class SessionRequests(Protocol):
    """The methods of a client that the handle of a session calls."""

    url: str

    def update(self, identity: str, *, state: str = "", **properties: Any) -> State: ...

    def close(self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession: ...

    def report_all(self, reports: Iterable[messages.Report]) -> None: ...


class HeartbeatThread:
    """Reports to the supervisor every `HEARTBEAT_S` that a session, or each session of a group, has a writer."""

    def __init__(
        self,
        client: SessionRequests,
        heartbeats: Callable[[], Iterable[control_pb2.Heartbeat]],
        *,
        label: str,
        thread_name: str,
    ) -> None:
        """`label` says whose heartbeats they are, for the log."""
        self._client = client
        self._heartbeats = heartbeats
        self._label = label
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def request_stop(self) -> None:
        """End the thread without waiting for it."""
        self._stopping.set()

    def stop(self) -> None:
        """End the thread: nothing is sent after this returns."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(HEARTBEAT_S):
            try:
                self._client.report_all(self._heartbeats())
            except (errors.RtaError, *retry.REDIS_ERRORS) as error:
                # The next one may get through; the supervisor acts on silence alone.
                retry.log.warning("no %s: %s", self._label, retry.to_rta_error(self._client.url, error))


class Session:
    """An open session. As a context manager it is closed at the end of the block, and failed if the block raised."""

    def __init__(self, client: SessionRequests, target: Target, channels: Channels | None = None) -> None:
        self.target = target
        self.channels = channels
        """Its channels as they were published, with the ids that they have; None where it was opened without."""
        self.ended: ClosedSession | None = None
        self._state = State.OPEN
        self._client = client
        heartbeat = control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id)
        self._heartbeats = HeartbeatThread(
            client,
            lambda: (heartbeat,),
            label=f"heartbeat of session {target.identity!r}",
            thread_name=f"rta-heartbeat-{target.identity}",
        )
        # The thread has no reference to the session: one that is garbage has no writer, and its heartbeats end.
        weakref.finalize(self, self._heartbeats.request_stop)

    def __reduce__(self) -> NoReturn:
        raise errors.Usage(
            reason="A Session stays in the process that opened it: pass its options to tasks, session.options"
        )

    def __repr__(self) -> str:
        state = self._state if self.ended is None else self.ended.state
        return f"Session({self.identity!r}, stream={self.target.stream!r}, state={state.value!r})"

    @property
    def identity(self) -> str:
        return self.target.identity

    @property
    def options(self) -> dict[str, str]:
        """For `.options(**session.options)` of a Spark writer."""
        options = self.target.options()
        return options if self.channels is None else {**options, "config": self.channels.identifier}

    def update(self, /, **properties: Any) -> None:
        """Set properties of the session; None removes one."""
        for name in ("identity", "external_id"):
            if name in properties:
                raise errors.BadSessionJson(
                    where=f"$.{name}", reason="a session keeps the names that it was opened with"
                )
        self._state = self._client.update(self.identity, **properties)

    def pause(self) -> None:
        """Show readers that acquisition pauses. Bursts can still be written."""
        self._state = self._client.update(self.identity, state=State.WAITING)

    def resume(self) -> None:
        """Show readers that acquisition continues."""
        self._state = self._client.update(self.identity, state=State.OPEN)

    def close(self, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession:
        """End the session. Calling it again returns the same result."""
        if self.ended is None:
            self.ended = self._client.close(self.identity, state=state, expected=expected)
            self._heartbeats.stop()
        return self.ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(state=State.CLOSED if kind is None else State.FAILED)
