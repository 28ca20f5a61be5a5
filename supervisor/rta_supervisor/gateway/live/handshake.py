"""The upgrade of an HTTP connection to a viewer's WebSocket: whether it may, and the response."""

from http import HTTPStatus
from typing import Any, Final, NamedTuple

import h11
from starlette.requests import HTTPConnection
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from rta_supervisor.gateway.access.control import AccessControl, Refusal
from rta_supervisor.gateway.access.grant import Grant
from rta_supervisor.gateway.live import stream_path
from rta_supervisor.http.protocol import LimitedProtocol, plain_response

REQUEST_MAX_BYTES: Final = 1024 * 1024
"""Of one message of a viewer: room for a quarter of a million channels."""

_UPGRADE_HEADERS: Final = frozenset({b"host", b"upgrade", b"connection", b"origin"})
"""What the protocol of WebSockets looks at. A token may be longer than it takes a header."""

_INVALID: Final = Refusal(400, "This is no valid upgrade to a WebSocket.")


class Upgrade(NamedTuple):
    """A request for a WebSocket that may be accepted."""

    identity: str
    grant: Grant


def decide(access: AccessControl, connection: LimitedProtocol, event: h11.Request) -> Upgrade | Refusal:
    """Whether a request may be upgraded: who asks first, so that others learn nothing."""
    scope: Any = {**connection.scope, "type": "websocket"}
    decision = access.decide(HTTPConnection(scope))
    if isinstance(decision, Refusal):
        return decision
    identity = stream_path.identity_of(event.target.partition(b"?")[0])
    if identity is None:
        return Refusal(404, "There is no WebSocket at this address.")
    offered = [
        name.strip()
        for header, value in connection.headers
        if header == b"sec-websocket-protocol"
        for name in value.decode("latin-1").split(",")
    ]
    if stream_path.SUBPROTOCOL not in offered:
        return Refusal(406, f"Offer the sub-protocol {stream_path.SUBPROTOCOL}.")
    return Upgrade(identity, decision)


def accept(connection: LimitedProtocol, event: h11.Request) -> ServerProtocol | Refusal:
    """The WebSocket that a request opens, with its response waiting to be sent."""
    if event.http_version < b"1.1":
        return _INVALID
    websocket = ServerProtocol(subprotocols=[Subprotocol(stream_path.SUBPROTOCOL)], max_size=REQUEST_MAX_BYTES)
    lines = [event.method + b" " + event.target + b" HTTP/1.1"]
    lines += [
        name + b": " + value
        for name, value in connection.headers
        if name in _UPGRADE_HEADERS or name.startswith(b"sec-websocket-")
    ]
    websocket.receive_data(b"\r\n".join(lines) + b"\r\n\r\n")
    requests = websocket.events_received()
    if not requests or not isinstance(requests[0], Request):
        return _INVALID
    response = websocket.accept(requests[0])
    if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
        return _INVALID
    websocket.send_response(response)
    return websocket


def refuse(connection: LimitedProtocol, refusal: Refusal) -> None:
    """Answer with a refusal, and close the connection."""
    status = f"{refusal.status} {HTTPStatus(refusal.status).phrase}"
    connection.transport.write(plain_response(status, refusal.sentence, refusal.headers))
    connection.transport.close()
