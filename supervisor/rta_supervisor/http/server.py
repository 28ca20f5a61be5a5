"""The HTTP server: listens from the start, whether Redis is there or not, and ends when the daemon does."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp

from rta_supervisor.settings import settings
from rta_wire import errors

GRACE_S: Final = 2
BACKLOG: Final = 128


def listen(config: settings.HttpSettings) -> socket.socket:
    """A socket that takes connections already: who comes before the pages are ready waits a little."""
    address = f"{config.host}:{config.port}"
    try:
        [(family, _, _, _, where), *_] = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
        return socket.create_server(where[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise errors.AddressInUse(address=address, reason=error.strerror or str(error)) from error


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the daemon's."""
        yield


class Server:
    """Serves an application on a socket until it is told to stop."""

    def __init__(self, app: ASGIApp, listener: socket.socket, closing: anyio.Event) -> None:
        self._listener = listener
        self._closing = closing
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._done = anyio.Event()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def run(self) -> None:
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._done.set()

    async def stop(self) -> None:
        """Event streams end first: the server would wait for them."""
        self._closing.set()
        self._server.should_exit = True
        await self._done.wait()
