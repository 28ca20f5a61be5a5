"""The HTTP server: accepts connections from the start of the daemon, whether Redis answers or not, until its end."""

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Final

import anyio
import anyio.lowlevel
import uvicorn
from starlette.types import ASGIApp

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.http import connection_table, protocol
from rta_supervisor.http.connection_table import ConnectionTable
from rta_supervisor.http.protocol import LimitedProtocol
from rta_supervisor.settings import settings
from rta_wire import errors

ServerSettings = settings.HttpSettings | settings.GatewaySettings

GRACE_S: Final = 2
BACKLOG: Final = 128

RESERVED_FILES: Final = 64
"""Open files that connections of clients leave to everything else: Redis, the catalogue, webhooks. About 20 are in use
on a single server."""

ACCEPT_PAUSE_S: Final = 1.0
"""Before the next attempt where the process or the host has no file left: connections wait in the backlog."""

_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REFUSAL: Final = protocol.plain_response("503 Service Unavailable", "Too many connections are open. Try again later.")


def listen(config: ServerSettings) -> socket.socket:
    """A socket that accepts connections at once: those made before the application runs wait in its backlog."""
    address = f"{config.host}:{config.port}"
    try:
        [(family, _, _, _, socket_address), *_] = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
        listener = socket.create_server(socket_address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise errors.AddressInUse(address=address, reason=error.strerror or str(error)) from error
    # Accepted connections inherit it. asyncio leaves it unset on them, and a small frame would wait up to 40 ms for the
    # acknowledgement of the one before.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def max_connections(wanted: int) -> int:
    """How many connections may be open: as the settings want it, as far as the limit of open files allows it."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - RESERVED_FILES))


def no_others() -> int:
    """For a server whose connections are all in its own table."""
    return 0


class _Uvicorn(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - as uvicorn has it
        """Listens to nothing: `Server` accepts the connections."""
        self.servers = []
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the daemon, which handles them."""
        yield


class Server:
    """Serves one application on one socket."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        closing: anyio.Event,
        config: ServerSettings,
        *,
        upgrade: protocol.Upgrade | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        upgraded: Callable[[], int] = no_others,
    ) -> None:
        """`closing` is set when the server stops: event streams of the application have to end then.

        `upgrade` takes over connections that ask for a WebSocket; without it they are ordinary requests. `tls` gives
        the context of a new connection. `upgraded` says how many connections were taken over and are still open: they
        need files too.
        """
        self._listener = listener
        self._closing = closing
        self._config = config
        self._section = "gateway" if isinstance(config, settings.GatewaySettings) else "http"
        self._upgrade = upgrade
        self._tls = tls
        self._upgraded = upgraded
        self._max_open = max_connections(sys.maxsize)
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                headers=[protocol.NOSNIFF],
                timeout_keep_alive=config.idle_timeout_s,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._table: ConnectionTable[LimitedProtocol] = ConnectionTable(
            max_connections=max_connections(config.connections), max_per_address=config.connections_per_address
        )
        self._accepting = anyio.CancelScope()
        self._ended_accepting = anyio.Event()
        self._done = anyio.Event()
        self._log = log.get()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def run(self) -> None:
        """Serves until `stop` is called."""
        if self._max_open < self._config.connections:
            setting = f"{self._section}.{connection_table.CONNECTIONS}"
            reason = "the limit of open files"
            self._log.warning("http_connections_reduced", connections=self._max_open, setting=setting, reason=reason)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._accept, name="http_accept")
                await self._server.serve(sockets=[self._listener])
        finally:
            self._done.set()

    async def stop(self) -> None:
        """Ends event streams first: the server would wait for them. Returns when the server has ended."""
        self._closing.set()
        self._accepting.cancel()
        await self._ended_accepting.wait()
        self._server.should_exit = True
        await self._done.wait()

    async def _accept(self) -> None:
        """Accept connections until the server stops.

        Not left to asyncio: at the limit of open files it would try again as often as the backlog is long, each time
        with a traceback in the log.
        """
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        try:
            with self._accepting:
                async with anyio.create_task_group() as tasks:
                    while True:
                        # Others get their turn between two connections, however many there are.
                        await anyio.lowlevel.checkpoint()
                        try:
                            connection, peer = await loop.sock_accept(self._listener)
                        except OSError as error:
                            await self._handle_accept_error(error)
                            continue
                        address = connection_table.client_address(peer[0])
                        if self._make_room(address):
                            tasks.start_soon(self._serve, connection, address)
                        else:
                            # A client that speaks TLS could not read the sentence.
                            _refuse(connection, _REFUSAL if self._tls is None else b"")
        finally:
            self._ended_accepting.set()

    async def _handle_accept_error(self, error: OSError) -> None:
        """Wait where there are no files left. Any other error is about one connection that is gone again."""
        if error.errno in _NO_FILES:
            counters.counts.http_closed["no_files"] += 1
            self._log.warning("http_out_of_files", reason=error.strerror, connections=len(self._table))
            await anyio.sleep(ACCEPT_PAUSE_S)

    def _make_room(self, address: str) -> bool:
        """Whether another connection of an address can be served. At a limit, the oldest one that waits for its client
        is closed for it: connections that send nothing keep nobody out."""
        limit = self._table.reached(address, self._max_open - self._upgraded())
        if limit is None:
            return True
        oldest = self._table.oldest_waiting(address if limit == connection_table.PER_ADDRESS else None)
        loser = address if oldest is None else oldest.address
        self._log.warning("http_connections_limited", address=loser, limit=f"{self._section}.{limit}")
        if oldest is None:
            counters.counts.http_closed["refused"] += 1
            return False
        oldest.abort("made_room")
        return True

    async def _serve(self, connection: socket.socket, address: str) -> None:
        """Hand a connection to the HTTP protocol, which serves it from then on."""
        served = LimitedProtocol(
            *(address, self._table, self._config),
            config=self._server.config,
            server_state=self._server.server_state,
            app_state={},
            upgrade=self._upgrade,
        )
        # Counted before it is connected: the next connection may be accepted meanwhile.
        self._table.add(address, served)
        context = None if self._tls is None else self._tls()
        timeout_s = None if context is None else self._config.header_timeout_s
        try:
            with served.connecting:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: served, connection, ssl=context, ssl_handshake_timeout=timeout_s
                )
        except ConnectionAbortedError:  # by asyncio, at the end of the time for the handshake
            counters.counts.http_closed["handshake_timeout"] += 1
        except OSError:
            pass  # also a client that does not speak TLS, or does not trust the certificate
        finally:
            if not served.is_connected:
                self._table.remove(address, served)


def _refuse(connection: socket.socket, response: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.send(response)
