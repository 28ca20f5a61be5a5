"""One HTTP/1.1 connection with time limits: for the head of a request, for its body, and for a client that does not
read. uvicorn itself limits only how long a connection may be idle between two requests.
"""

import asyncio
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rta_supervisor.diagnostics import counters
from rta_supervisor.http.connection_table import ConnectionTable
from rta_supervisor.http.sse import SEND_TIMEOUT_S
from rta_supervisor.settings import settings

NOSNIFF: Final = ("X-Content-Type-Options", "nosniff")
"""On every response, so that no browser takes text for a page or a program."""


def plain_response(status: str, sentence: str, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole response, after which the connection is closed."""
    body = f"{sentence}\n".encode()
    lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        ": ".join(NOSNIFF),
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


TIMED_OUT: Final = plain_response("408 Request Timeout", "The request was not complete in time.")
INVALID: Final = plain_response("400 Bad Request", "This is no valid HTTP request.")


class Phase(enum.Enum):
    """What a connection waits for; the value is the reason in metrics if it takes too long."""

    HEAD = "header_timeout"
    BODY = "body_timeout"
    RESPONSE = "response"
    """Of the application, which may stream events for hours."""
    UNREAD = "send_timeout"
    """The client has to read what was sent before more can be."""
    IDLE = "idle_timeout"
    """For the next request: uvicorn has this limit."""
    CLOSING = "close_timeout"
    """For the client to read the rest of what was sent."""


Upgrade = Callable[["LimitedProtocol", h11.Request, bytes], asyncio.Protocol | None]
"""Takes over a connection that asks for a WebSocket, by its request and what came behind it. Gives the protocol that
serves it from then on; None where the request was refused and the connection is closing."""


class LimitedProtocol(H11Protocol):
    """Closes a connection that stays in a phase for longer than its limit, and keeps the table of connections."""

    def __init__(
        self,
        address: str,
        table: "ConnectionTable[LimitedProtocol]",
        limits: settings.HttpSettings | settings.GatewaySettings,
        *,
        upgrade: Upgrade | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._upgrade = upgrade
        self.address = address
        self._table = table
        self._limits_s = {
            Phase.HEAD: limits.header_timeout_s,
            Phase.BODY: limits.body_timeout_s,
            Phase.UNREAD: SEND_TIMEOUT_S,
            Phase.CLOSING: SEND_TIMEOUT_S,
        }
        self._phase: Phase | None = None
        self._is_upgraded = False
        self.connecting = anyio.CancelScope()
        """Cancelled where the connection is closed before it is connected."""
        self.is_connected = False
        """Whether the transport is there: over TLS only after the handshake."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.is_connected = True
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._table.remove(self.address, self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update()

    def _should_upgrade_to_ws(self) -> bool:
        return self._upgrade is not None

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        assert self._upgrade is not None
        rest, _ = self.conn.trailing_data
        successor = self._upgrade(self, event, bytes(rest))
        if successor is not None:
            # From here on the connection is a viewer, which has limits of its own.
            self.connections.discard(self)
            self._table.remove(self.address, self)
            self._is_upgraded = True
            self._stop_timer()
            self.transport.set_protocol(successor)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._update()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the sentence is ours
        self.transport.write(INVALID)
        self.transport.close()

    def abort(self, reason: str) -> None:
        """Close the connection at once, and count why."""
        counters.counts.http_closed[reason] += 1
        self._table.remove(self.address, self)
        if self.is_connected:
            self.transport.abort()
        else:
            self.connecting.cancel()

    def _update(self) -> None:
        """Begin the time limit of the phase that the connection is in, unless it has begun."""
        if self._is_upgraded:
            return
        phase = self._current_phase()
        if phase is self._phase:
            return
        self._phase = phase
        self._stop_timer()
        self._table.set_waiting(self.address, self, is_waiting=phase not in (Phase.RESPONSE, Phase.UNREAD))
        if (limit_s := self._limits_s.get(phase)) is not None:
            self._timer = self.loop.call_later(limit_s, self._time_out, phase)

    def _current_phase(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.UNREAD
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type leaves out that there is none at first
        if cycle is not None and not cycle.response_complete:
            return Phase.RESPONSE
        is_begun = cycle is None or bool(self.conn.trailing_data[0])
        return Phase.HEAD if is_begun else Phase.IDLE

    def _time_out(self, phase: Phase) -> None:
        # Without a byte of a request there is nothing to respond to: browsers open connections in advance.
        is_asked = phase is Phase.BODY or (phase is Phase.HEAD and bool(self.conn.trailing_data[0]))
        if is_asked and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(TIMED_OUT)
        self.abort(phase.value)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
