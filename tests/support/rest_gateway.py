"""A gateway that listens on loopback in a thread of the test, and a client of it that knows nothing but HTTP."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.gateway import app
from rta_supervisor.http import server
from rta_supervisor.runtime import gateway
from rta_supervisor.settings import settings


class RestAnswer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class RestGateway:
    """A running gateway, by its address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> RestAnswer:
        """Any request; `path` as it goes over the wire."""
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return RestAnswer(answer.status, names, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> RestAnswer:
        """A GET under `/rta/v2`."""
        return self.ask(f"/rta/v2{path}", headers={name.replace("_", "-"): value for name, value in headers.items()})

    def search(self, form: str) -> list[dict[str, Any]]:
        """The sessions that a POST with a form finds."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self.ask("/rta/v2/sessions", "POST", headers, form)
        assert answer.status == 200, answer.body
        sessions: list[dict[str, Any]] = answer.json()["sessions"]
        return sessions


@contextlib.contextmanager
def running(config: settings.Settings) -> Iterator[RestGateway]:
    """A gateway with these settings, on a port of its own."""
    config = msgspec.structs.replace(config, gateway=msgspec.structs.replace(config.gateway, port=0))
    started = threading.Event()
    address: list[str] = []
    stops: list[Any] = []

    async def serve() -> None:
        parts = gateway.build(config, LoopWatch())
        try:
            with server.listen(config.gateway) as listener:
                http_server = server.Server(app.build(parts), listener, parts.closing, config.gateway)
                address.append(http_server.address)
                stop = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(http_server.run)
                    tasks.start_soon(parts.indexes.run)
                    stops.append((anyio.lowlevel.current_token(), stop))
                    started.set()
                    await stop.wait()
                    await http_server.stop()
                    tasks.cancel_scope.cancel()
        finally:
            await parts.catalogue.close()
            await parts.link.close()

    # A daemon, so that a process can end while one runs that is stopped at its exit.
    thread = threading.Thread(target=anyio.run, args=(serve,), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield RestGateway(address[0])
    finally:
        token, stop = stops[0]
        anyio.from_thread.run_sync(stop.set, token=token)
        thread.join(30)
