"""The HTTP server: accepts connections from the start of the daemon, whether Redis answers or not, until its end."""

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
    """A socket that accepts connections at once: those made before the application runs wait in its backlog."""
    address = f"{config.host}:{config.port}"
    try:
        [(family, _, _, _, socket_address), *_] = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
        return socket.create_server(socket_address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise errors.AddressInUse(address=address, reason=error.strerror or str(error)) from error


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the daemon, which handles them."""
        yield


class Server:
    """Serves one application on one socket."""

    def __init__(self, app: ASGIApp, listener: socket.socket, closing: anyio.Event) -> None:
        """`closing` is set when the server stops: event streams of the application have to end then."""
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
        """Serves until `stop` is called."""
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            self._done.set()

    async def stop(self) -> None:
        """Ends event streams first: the server would wait for them. Returns when the server has ended."""
        self._closing.set()
        self._server.should_exit = True
        await self._done.wait()
