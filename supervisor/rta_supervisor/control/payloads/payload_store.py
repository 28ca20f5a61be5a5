"""Payloads of requests that are too large for one message: stores their pieces, with a limit for each principal, and
puts the text of a payload into the request that names it.
"""

import contextlib
import math
from collections.abc import AsyncIterator
from typing import Final

import anyio

from rta_supervisor.control import server_functions
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors, limits
from rta_wire.control import messages, payload
from rta_wire.pb import control_pb2

PIECE_MIN_BYTES: Final = 16 * limits.KIB
"""What a piece counts as, at least: it limits their number as well."""

TEXT_FIELDS: Final[dict[type, str]] = {
    control_pb2.OpenSession: "session_json",
    control_pb2.UpdateSession: "properties_json",
    control_pb2.PublishConfig: "config_json",
}
"""The field of a request that its payload stands in for."""


PAYLOAD_REQUESTS = control_pb2.OpenSession | control_pb2.UpdateSession | control_pb2.PublishConfig


class PayloadStore:
    """The payloads of all principals, which Redis holds."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._turn = anyio.Semaphore(1)
        self._turns_of_principals: dict[str, anyio.Semaphore] = {}

    @contextlib.asynccontextmanager
    async def turn(self, principal: str) -> AsyncIterator[None]:
        """For requests with a payload, one at a time: serving one keeps all others waiting for some 50 ms, and takes
        much memory. Principals take turns: each has one that waits for its turn, and its others wait for that one."""
        own = self._turns_of_principals.setdefault(principal, anyio.Semaphore(1))
        async with own, self._turn:
            yield

    async def store(self, entry: ControlEntry, piece: control_pb2.StorePiece) -> control_pb2.SessionReply:
        """Store a piece. It expires when no request can name it any more."""
        outcome: bytes = await self._link.do(
            *server_functions.store_piece(
                self._keys,
                entry.principal,
                piece,
                ttl_s=math.ceil(self._config.control.expire_s),
                counts_bytes=max(PIECE_MIN_BYTES, len(piece.data)),
                max_bytes=self._config.limits.payload_bytes,
            )
        )
        if outcome == b"full":
            raise self._limit_reached(entry.principal)
        if outcome == b"other":
            raise errors.PayloadDamaged(reason=f"another piece {piece.number} was stored before")
        return control_pb2.SessionReply()

    def _limit_reached(self, principal: str) -> errors.LimitReached:
        principal_limits.note_reached(principal, "payload_bytes")
        limit = self._config.limits.payload_bytes
        return errors.LimitReached(
            principal=principal,
            what="payloads for requests to come",
            setting="limits.payload_bytes",
            limit=limit,
            remedy="Those that no request names expire after control.expire_s. Nothing was changed: try it later.",
        )

    async def with_text(self, principal: str, request: messages.Request) -> messages.Request:
        """A request with its text in place of its payload, if it names one."""
        named = payload_of(request)
        if named is None:
            return request
        numbers = range(named.pieces)
        sealed = await self._link.do("HMGET", self._keys.payload(principal, named.id), *numbers)
        try:
            text = payload.join(named, sealed).decode()
        except UnicodeDecodeError as error:
            raise errors.PayloadDamaged(reason="it is not valid UTF-8") from error
        whole = type(request)()
        whole.CopyFrom(request)  # type: ignore[arg-type]
        whole.ClearField("payload")
        setattr(whole, TEXT_FIELDS[type(request)], text)
        return whole

    async def remove(self, principal: str, request: messages.Request) -> None:
        """Remove the payload that a request named, once that has a reply."""
        if (named := payload_of(request)) is not None:
            await self._link.do(*server_functions.remove_payload(self._keys, principal, named.id))


def payload_of(request: messages.Request) -> control_pb2.Payload | None:
    """The payload that a request names."""
    if isinstance(request, PAYLOAD_REQUESTS) and request.HasField("payload"):
        return request.payload
    return None
