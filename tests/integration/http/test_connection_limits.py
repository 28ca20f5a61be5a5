"""Limits on HTTP connections, before any token is looked at: how many, how long, and what happens without files."""

import contextlib
import resource
import select
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from starlette.applications import Starlette

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.http import server as http_server
from rta_supervisor.settings.sections.servers.gateway import GatewaySettings
from tests.integration.web import sse_client
from tests.support import http_client as web
from tests.support import supervisors
from tests.support.sockets import is_closed
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

HALF_A_LINE = b"GET /hea"
LIMITS = {"RTA_HTTP__CONNECTIONS": "20", "RTA_HTTP__CONNECTIONS_PER_ADDRESS": "10"}


@contextlib.contextmanager
def running(url: str, environment: dict[str, str]) -> Iterator[Supervisor]:
    """A supervisor that is killed at the end: how it stops is not what these tests are about."""
    with supervisors.running(url, environment) as supervisor:
        try:
            yield supervisor
        finally:
            supervisor.kill()


def connect(supervisor: Supervisor, start: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    """A connection from a loopback address of choice that has sent the start of a request."""
    parts = urlsplit(web.address(supervisor))
    client = socket.create_connection((parts.hostname or "", parts.port or 0), 30, source_address=(source, 0))
    client.sendall(start)
    return client


@contextlib.contextmanager
def half_open(supervisor: Supervisor, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(supervisor, HALF_A_LINE, source)) for _ in range(count)]


def read_all(client: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            received += part
    return received


def is_readable(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])


def closed_connections(supervisor: Supervisor) -> dict[str, float]:
    """How many connections limits have closed, by reason."""
    lines = web.get(web.address(supervisor), "/metrics").body.splitlines()
    counts = [line.split('"') for line in lines if line.startswith("rta_http_connections_closed_total{")]
    return {reason: float(rest.split()[-1]) for _, reason, rest in counts}


def test_half_open_connections_keep_nobody_out(url: str) -> None:
    """60 connections that send half a line hold 10 places of one address; those in their way are closed, oldest first,
    for clients of the same address and of others."""
    with running(url, LIMITS) as supervisor, half_open(supervisor, 60) as clients:
        wait_until(lambda: sum(map(is_closed, clients)) >= 50, what="connections that are closed")
        assert not is_closed(clients[-1])
        base = web.address(supervisor)
        assert web.get(base, "/").status == 200
        with connect(
            supervisor, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "127.0.0.2"
        ) as other:
            assert read_all(other).startswith(b"HTTP/1.1 200")
        assert closed_connections(supervisor)["made_room"] >= 50
        event = supervisor.wait_for_event("http_connections_limited")
        assert (event["address"], event["limit"]) == ("127.0.0.1", "http.connections_per_address")
        assert len(supervisor.events("http_connections_limited")) < 20, "events are throttled"


def test_the_limit_in_all_closes_connections_of_the_address_with_the_most(url: str) -> None:
    """Two addresses hold all places: a third is served, and the one with fewer connections keeps them."""
    with (
        running(url, LIMITS | {"RTA_HTTP__CONNECTIONS": "12"}) as supervisor,
        half_open(supervisor, 3, "127.0.0.3") as few,
        half_open(supervisor, 9, "127.0.0.2") as many,
    ):
        assert web.get(web.address(supervisor), "/").status == 200
        wait_until(lambda: is_closed(many[0]), what="a closed connection")
        assert not any(map(is_closed, few))
        assert supervisor.wait_for_event("http_connections_limited")["limit"] == "http.connections"


def test_responses_in_progress_are_not_closed_for_others(url: str) -> None:
    """Where all connections of an address are event streams, another one gets a 503."""
    with running(url, LIMITS | {"RTA_HTTP__CONNECTIONS_PER_ADDRESS": "2"}) as supervisor:
        base = web.address(supervisor)
        with sse_client.connect(base, "/ui/events") as first, sse_client.connect(base, "/ui/events") as second:
            assert first.next()
            assert second.next()
            with connect(supervisor) as refused:
                response = read_all(refused)
            assert response.startswith(b"HTTP/1.1 503 ")
            assert b"nosniff" in response
            assert first.next()


def test_each_part_of_a_request_has_a_time_limit(url: str) -> None:
    """Half a line, a line byte by byte, half a body, half a second request, nothing at all, and nothing after
    a response: all are closed, while an event stream goes on."""
    quick = {"HEADER_TIMEOUT_S": "0.3", "BODY_TIMEOUT_S": "0.4", "IDLE_TIMEOUT_S": "1"}
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345"
    with running(url, {f"RTA_HTTP__{name}": value for name, value in quick.items()}) as supervisor:
        base = web.address(supervisor)
        starts = {"half": HALF_A_LINE, "body": body, "nothing": b"", "second": request + HALF_A_LINE, "idle": request}
        with sse_client.connect(base, "/ui/events") as events, contextlib.ExitStack() as stack:
            assert events.next()
            clients = {name: stack.enter_context(connect(supervisor, start)) for name, start in starts.items()}
            with connect(supervisor) as slow:
                wait_until(lambda: slow.send(b"x") and is_readable(slow), what="the end of a slow request")
                assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")
            received = {name: read_all(client) for name, client in clients.items()}
            assert events.next()
        assert received["half"].startswith(b"HTTP/1.1 408 ")
        assert b"nosniff" in received["half"]
        assert received["nothing"] == b""
        assert received["body"].startswith(b"HTTP/1.1 405 ")
        assert received["second"].count(b"HTTP/1.1 ") == 2
        assert received["idle"].count(b"HTTP/1.1 ") == 1
        counts = closed_connections(supervisor)
        assert counts["header_timeout"] == 4
        assert counts["body_timeout"] == 1


def test_without_files_it_waits_and_recovers(url: str) -> None:
    """At the limit of open files connections wait in the backlog, the supervisor neither spins nor loses Redis, and
    they are served when others are gone."""
    environment = {"RTA_HTTP__CONNECTIONS": "4000", "RTA_HTTP__CONNECTIONS_PER_ADDRESS": "4000"}
    with running(url, environment) as supervisor:
        pid = supervisor.process.pid
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 20, files + 20))
        with half_open(supervisor, 60):
            wait_until(lambda: len(supervisor.events("http_out_of_files")) >= 2, what="another attempt")
            first, second, *_ = [str(event["timestamp"]) for event in supervisor.events("http_out_of_files")]
            pause = datetime.fromisoformat(second) - datetime.fromisoformat(first)
            assert pause.total_seconds() > 0.9, "it waits between attempts"
            rta_writers.SessionClient(url).session("run-1", stream="rig").close()
        assert web.get(web.address(supervisor), "/health").status == 200


async def test_viewers_leave_files_to_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that became something else count among open files: where none is left, another one gets a 503."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(http_server, "RESERVED_FILES", files - 3)
    config = GatewaySettings(port=server.free_port(), idle_timeout_s=1)
    viewers = 2
    closing = anyio.Event()
    with http_server.listen(config) as listener:
        serving = http_server.Server(Starlette(), listener, closing, config, upgraded=lambda: viewers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serving.run)
            assert await _status(config.port) == 404
            viewers = 3
            assert await _status(config.port) == 503
            await serving.stop()


async def _status(port: int) -> int:
    async with await anyio.connect_tcp("127.0.0.1", port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return int((await client.receive()).split()[1])
