"""Consumes the requests of all principals: reads them as there is room for each principal, serves those of different
sessions at the same time and in turn, and lets those wait that have to.

A request is acknowledged after its effects and its reply. What is read and not acknowledged, by us or by a supervisor
that died, is read again; what can never be served goes to the dead letters with its reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import anyio
import msgspec

from rta_supervisor.control.control_streams import ConsumerCallbacks, ControlStreams
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.fair_queue import FairQueue
from rta_supervisor.control.request_reader import RequestReader
from rta_supervisor.control.requests import RequestHandler
from rta_supervisor.control.waiting_requests import RequestInHand, Wait, WaitingRequests
from rta_supervisor.diagnostics import log, loop_watch, principal_limits
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS, RETRIABLE_ERRORS, DataLost
from rta_supervisor.transport.outage_log import OutageLog
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

WORKERS: Final = 64
PRINCIPAL_WORKERS: Final = 16
ALONE_WORKERS: Final = 48
"""Requests that are served at a time, those of one principal among others, and those of one that asks alone. The more
of them share each round trip, the less each costs, and the longer others wait for theirs."""

OPERATOR_WORKERS: Final = 4
"""Workers that serve operators alone: they are served whatever others do."""

OUTAGE_PAUSE_S: Final = 0.5

CHECK_S: Final = 0.5
CHECK_MAX_TOPICS: Final = 500
"""How often, and for how many topics at a time, requests that wait are compared with what Redis knows: another
supervisor may have got the report that they wait for."""

STUCK_S: Final = loop_watch.SLACK_S
"""A request that is served for longer than this is stuck."""

ReadTopics = Callable[[Sequence[str]], Awaitable[list[Any]]]
"""Gives what is known of each topic, to be compared by `Wait.is_met`."""


class RequestConsumer:
    """Reads requests, and gives them to a handler in turn."""

    def __init__(
        self, streams: ControlStreams, config: settings.Settings, outage_log: OutageLog, read_topics: ReadTopics
    ) -> None:
        self.streams = streams
        self._config = config
        self._outage_log = outage_log
        self._read_topics = read_topics
        self._queue: FairQueue[RequestInHand] = FairQueue(
            self._weight,
            self._is_operator,
            principal_max_served=PRINCIPAL_WORKERS,
            alone_max_served=ALONE_WORKERS,
        )
        self._waiting = WaitingRequests()
        self._changed: set[str] = set()
        self._has_changed = anyio.Event()
        self._reader = RequestReader(streams, config, self._waiting.count)
        self._sessions: dict[tuple[str, str], str] = {}
        """The session of each request in hand, by principal and request id: a cancellation has to find it."""
        self._serving_since_s: dict[int, float] = {}
        """Requests that are being served, by the number of their worker."""
        self._handled: list[ControlEntry] = []
        self._has_handled = anyio.Event()
        self._idle: list[anyio.Event] = []
        self._idle_operator: list[anyio.Event] = []
        self._failure: Exception | None = None
        self._progress = anyio.Event()
        self._log = log.get(lane=streams.kind)

    def _weight(self, principal: str) -> float:
        return self._config.limits.weight(principal)

    def _is_operator(self, principal: str) -> bool:
        return principal in self._config.control.operators

    def note_changed(self, topic: str) -> None:
        """Note that something that requests may wait for has changed."""
        if topic in self._waiting:
            self._changed.add(topic)
            self._has_changed.set()

    async def run(self, handler: RequestHandler, callbacks: ConsumerCallbacks, stopping: anyio.Event) -> None:
        """Serve requests until `stopping` is set. An outage is waited out; what it interrupted is read again."""
        async with anyio.create_task_group() as tasks:
            for number in range(WORKERS + OPERATOR_WORKERS):
                idle = self._idle if number < WORKERS else self._idle_operator
                tasks.start_soon(self._work, handler, number, idle, name=self.streams.kind)
            tasks.start_soon(self._acknowledge, name=self.streams.kind)
            tasks.start_soon(self._wake_waiting, name=self.streams.kind)
            await self._read_until(stopping, handler, callbacks)
            await self._drain()
            tasks.cancel_scope.cancel()

    async def _read_until(self, stopping: anyio.Event, handler: RequestHandler, callbacks: ConsumerCallbacks) -> None:
        while not stopping.is_set():
            self._report_alive()
            try:
                if self._failure is not None:
                    raise self._failure
                await self._reader.claim()
                await self._take(await self._reader.read(), handler)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._outage_log.log_failure(error)
                await self._reset(error)
                await anyio.sleep(OUTAGE_PAUSE_S)
            except DataLost as error:
                await self._reset(error)
                await callbacks.on_data_loss(str(error))

    def _report_alive(self) -> None:
        """Report that this loop makes progress, unless a request is stuck."""
        if min(self._serving_since_s.values(), default=anyio.current_time()) > anyio.current_time() - STUCK_S:
            loop_watch.report_alive()

    async def _take(self, entries: Sequence[ControlEntry], handler: RequestHandler) -> None:
        """Take entries in hand. A cancellation goes before the request that it cancels if that is in hand too."""
        cancellations: list[RequestInHand] = []
        for entry in entries:
            request = _decode(entry)
            if isinstance(request.message, control_pb2.CancelRequest):
                cancellations.append(request)
            else:
                self._sessions[entry.principal, request.request_id] = request.session
                self._add(request)
        others: list[RequestInHand] = []
        for request in cancellations:
            session = self._sessions.get((request.entry.principal, request.target_id))
            if session is None:
                others.append(request)
            else:
                request.session = session
                self._add(request, first=True)
        if others:
            await self._cancel(others, handler)

    async def _cancel(self, requests: Sequence[RequestInHand], handler: RequestHandler) -> None:
        try:
            await handler.cancel([(request.entry, request.message) for request in requests])  # type: ignore[misc]
        except RETRIABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            if len(requests) > 1:
                for request in requests:
                    await self._cancel([request], handler)
                return
            await self._refuse_poison(requests[0], handler, error)
        for request in requests:
            self._finish(request)

    def _add(self, request: RequestInHand, *, first: bool = False) -> None:
        """Give a request its turn."""
        principal = request.entry.principal
        self._queue.add(principal, request.session, [request], first=first)
        if self._is_operator(principal) and self._idle_operator:
            self._idle_operator.pop().set()
        elif self._idle:
            self._idle.pop().set()

    def _wake(self, request: RequestInHand | None) -> None:
        """Have a request that waited served again, before later ones of its session."""
        if request is not None:
            request.entry = msgspec.structs.replace(request.entry, is_first_delivery=False)
            self._add(request, first=True)

    async def _work(self, handler: RequestHandler, number: int, idle: list[anyio.Event]) -> None:
        """Serve requests one after another until cancelled."""
        while True:
            operators_only = idle is self._idle_operator
            request = None if self._failure is not None else self._queue.next(operators_only=operators_only)
            # The worker that was woken for a request may have taken another: each wakes the next while there are more.
            if self._queue.has_next and self._failure is None and self._idle:
                self._idle.pop().set()
            if request is None:
                event = anyio.Event()
                idle.append(event)
                await event.wait()
                continue
            self._serving_since_s[number] = anyio.current_time()
            try:
                await self._serve(request, handler)
            except RETRIABLE_ERRORS as error:
                self._fail(error)
            finally:
                del self._serving_since_s[number]
                self._queue.done(request.entry.principal, request.session)
                self._progress.set()

    async def _serve(self, request: RequestInHand, handler: RequestHandler) -> None:
        try:
            wait = await handler.serve(request)
        except RETRIABLE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost loop of all handlers: a message must not end the daemon
            await self._refuse_poison(request, handler, error)
            wait = None
        if wait is None:
            self._finish(request)
        else:
            await self._let_wait(request, wait, handler)

    async def _refuse_poison(self, request: RequestInHand, handler: RequestHandler, error: Exception) -> None:
        self._log.exception("message_poisonous", entry=request.entry.id)
        await handler.refuse(request, errors.PoisonousMessage(reason=f"{type(error).__name__}: {error}"))

    async def _let_wait(self, request: RequestInHand, wait: Wait, handler: RequestHandler) -> None:
        """Let a request wait, or refuse it where too many of its principal do."""
        message = cast("messages.Request", request.message)  # nothing else has to wait
        principal, limit = request.entry.principal, self._config.limits.waiting_requests
        if request.waits or self._waiting.count(principal) < limit:
            request.entry = self._reader.shrink(request.entry, message)
            self._waiting.add(request, wait, now_ms())
            # What it waits for may have come since it was looked at.
            self.note_changed(wait.topic)
            return
        principal_limits.note_reached(principal, "waiting_requests")
        await handler.answer(
            message,
            errors.LimitReached(
                principal=principal,
                what=f"{limit:,} requests that wait for data",
                setting="limits.waiting_requests",
                limit=limit,
                remedy="Nothing was changed: send the request again once the data that the others expect has arrived.",
            ),
        )
        self._finish(request)

    async def _wake_waiting(self) -> None:
        """Take requests out of their waiting when what they wait for has come or their time is over."""
        next_check_s = 0.0
        while True:
            self._has_changed = anyio.Event()
            due_ms = self._waiting.next_due_ms()
            pause_s = CHECK_S if due_ms is None else min(CHECK_S, max(0, due_ms - now_ms()) / 1000)
            if not self._changed:
                with anyio.move_on_after(pause_s if self._waiting else None):
                    await self._has_changed.wait()
            topics = [self._changed.pop() for _ in range(min(len(self._changed), CHECK_MAX_TOPICS))]
            if anyio.current_time() >= next_check_s:
                next_check_s = anyio.current_time() + CHECK_S
                topics += self._waiting.next_topics(CHECK_MAX_TOPICS)
            try:
                values = await self._read_topics(topics) if topics else []
            except RETRIABLE_ERRORS as error:
                self._fail(error)
                await anyio.sleep(OUTAGE_PAUSE_S)
                continue
            for topic, value in zip(topics, values, strict=True):
                for request in reversed(self._waiting.take_met(topic, value)):
                    self._wake(request)
            for request in self._waiting.take_due(now_ms()):
                self._wake(request)

    def _finish(self, request: RequestInHand) -> None:
        """Have a request acknowledged. One that it cancelled is served again, and found to have a reply."""
        self._sessions.pop((request.entry.principal, request.request_id), None)
        self._waiting.finish(request)
        if request.target_id:
            self._wake(self._waiting.take_request(request.target_id))
        self._handled.append(request.entry)
        self._has_handled.set()

    async def _acknowledge(self) -> None:
        """Acknowledge requests that are done with: all of one round trip together."""
        while True:
            await self._has_handled.wait()
            self._has_handled = anyio.Event()
            entries, self._handled = self._handled, []
            try:
                await self.streams.acknowledge(entries)
            except RETRIABLE_ERRORS as error:
                self._fail(error)
            self._reader.release(entries)
            self._progress.set()

    def _fail(self, error: Exception) -> None:
        """Have no further request served until the reader has dealt with an error of Redis."""
        self._failure = self._failure or error

    async def _reset(self, error: Exception) -> None:
        """Wait until nothing is served, and forget everything in hand: it is pending, and read again."""
        self._failure = error
        while self._serving_since_s:
            await self._next_progress()
        self._queue.clear()
        self._waiting.clear()
        self._handled.clear()
        self._sessions.clear()
        self._reader.start_again()
        self._failure = None

    async def _drain(self) -> None:
        """Serve and acknowledge what is in hand, but for what waits. After an outage the rest is left to others."""
        while self._failure is None and len(self._reader) > len(self._waiting):
            await self._next_progress()

    async def _next_progress(self) -> None:
        self._progress = anyio.Event()
        await self._progress.wait()


def _decode(entry: ControlEntry) -> RequestInHand:
    """A request as it was read."""
    try:
        message = messages.unpack(entry.raw)
    except errors.RtaError as error:
        # Without the traceback, which holds the decoded message for as long as the error is kept.
        return RequestInHand(entry, error.with_traceback(None))
    if isinstance(message, control_pb2.CancelRequest):
        return RequestInHand(entry, message, request_id=message.request_id, target_id=message.target_request_id)
    request_id = message.request_id if isinstance(message, messages.Request) else ""
    return RequestInHand(entry, message, session=messages.session_of(message), request_id=request_id)
