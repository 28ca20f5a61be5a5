"""Server-sent events: a response that stays open, counts against a limit, and ends if its client does not read."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rta_supervisor.http import connection_limit

SEND_TIMEOUT_S: Final = 20.0
"""A client that reads nothing for so long is disconnected; browsers connect again by themselves."""

RETRY_MS: Final = 1000


def format_event(data: bytes) -> bytes:
    """One event with one line of data, such as JSON, which has no raw line ends in it."""
    return b"data: " + data + b"\n\n"


class EventStream(Response):
    """A response that sends the chunks of a source until the source ends or the client disconnects."""

    media_type = "text/event-stream"

    def __init__(
        self, source: AsyncIterator[bytes], limit: connection_limit.ConnectionLimit, headers: dict[str, str]
    ) -> None:
        """`source`: an asynchronous generator of formatted events. `headers`: more headers of the response."""
        super().__init__(headers=headers | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._source = source
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        with self._limit.opened():
            async with anyio.create_task_group() as group:

                async def wait_for_disconnect() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    group.cancel_scope.cancel()

                group.start_soon(wait_for_disconnect, name="disconnect")
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._send_all(send)
                group.cancel_scope.cancel()

    async def _send_all(self, send: Send) -> None:
        async with contextlib.aclosing(self._source) as source:  # type: ignore[type-var] # every source is a generator
            body = f"retry: {RETRY_MS}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
            async for chunk in source:
                with anyio.move_on_after(SEND_TIMEOUT_S) as timeout:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if timeout.cancelled_caught:
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
