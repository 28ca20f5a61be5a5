"""Requests: opens and closes served by the daemon, against the same commands in redis-py pipelines."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import anyio

from bench import load
from bench.measure import Case
from rta_supervisor.control import server_functions
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.requests import RequestHandler, RequestService
from rta_supervisor.control.waiting_requests import RequestInHand
from rta_supervisor.diagnostics import log
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.opening.external_ids import ExternalIds
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.control import messages
from rta_wire.pb import control_pb2

REQUESTS = load.NAMES.requests(keys.DEFAULT_PRINCIPAL)
PIPELINE_REQUESTS = 1000
READ_REQUESTS = 200


def open_request(name: str) -> control_pb2.OpenSession:
    return control_pb2.OpenSession(
        request_id=f"open-{name}", identity=name, stream=load.STREAM, session_json=load.document(name)
    )


def close_request(name: str) -> control_pb2.CloseSession:
    return control_pb2.CloseSession(request_id=f"close-{name}", identity=name, state="closed")


class RecordingLink(Link):
    """A link that keeps the commands that it sent."""

    sent: list[commands.Command]

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        self.sent += batch
        return await super().try_all(batch)


class Requests:
    """Opens and closes of new sessions, more of them with every round."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._round = 0
        self._open_commands: list[commands.Command] = []
        self._close_commands: list[commands.Command] = []

    def opens_per_s(self) -> float:
        return self._daemon_per_s([open_request(name) for name in self._new_names()])

    def closes_per_s(self) -> float:
        names = self._new_names()
        self._daemon_per_s([open_request(name) for name in names])
        return self._daemon_per_s([close_request(name) for name in names])

    def _new_names(self) -> list[str]:
        load.rig().only(("requests", self), self._set_up)
        self._round += 1
        return [f"session-{self._round}-{number}" for number in range(self.count)]

    @staticmethod
    def _set_up() -> None:
        load.rig().start()

    def _daemon_per_s(self, requests: Sequence[messages.Request]) -> float:
        """The daemon as it runs: requests wait in the stream, and it works them off."""
        rig = load.rig()
        rig.pause()
        rig.sender.send(load.packed(load.report_call(messages.pack(request), REQUESTS) for request in requests))
        started_s = time.perf_counter()
        rig.go_on()
        rig.wait_until_empty(REQUESTS)
        return len(requests) / (time.perf_counter() - started_s)

    def opens_in_pipeline_per_s(self) -> float:
        self._record()
        load.rig().only("pipeline", lambda: None)
        load.rig().client.flushall()
        return self._pipeline_per_s([open_request(name) for name in _pipeline_names()], self._open_commands)

    def closes_in_pipeline_per_s(self) -> float:
        self.opens_in_pipeline_per_s()
        return self._pipeline_per_s([close_request(name) for name in _pipeline_names()], self._close_commands)

    def _pipeline_per_s(self, requests: Sequence[messages.Request], batch: Sequence[commands.Command]) -> float:
        """The same commands as one redis-py pipeline: what the services send, the reads, and the acknowledgement."""
        client = load.rig().client
        client.delete(REQUESTS)
        ids = [entry_ids.format_id(1, number) for number in range(len(requests))]
        client.execute_command(*server_functions.create_group(load.NAMES, REQUESTS))
        for entry_id, request in zip(ids, requests, strict=True):
            client.xadd(REQUESTS, {keys.CONTROL_FIELD: messages.pack(request)}, id=entry_id)
        started_s = time.perf_counter()
        with client.pipeline(transaction=False) as pipe:
            for _ in range(0, len(requests), READ_REQUESTS):
                pipe.xreadgroup(keys.CONTROL_GROUP, "bench", {REQUESTS: ">"}, count=READ_REQUESTS)
            for command in batch:
                pipe.execute_command(*command)
            for at in range(0, len(ids), READ_REQUESTS):
                pipe.execute_command(*server_functions.acknowledge(load.NAMES, REQUESTS, ids[at : at + READ_REQUESTS]))
            pipe.execute(raise_on_error=False)  # XINFO of a stream that does not exist yet is an error
        return len(requests) / (time.perf_counter() - started_s)

    def _record(self) -> None:
        """Serve opens and closes on an empty server, and keep the commands that it took."""
        if self._open_commands:
            return
        load.rig().only("recording", lambda: None)

        async def main() -> None:
            config = settings.Settings(redis=settings.RedisSettings(url=load.rig().url))
            link = RecordingLink(config.redis)
            link.sent = []
            await function_loader.load(link)
            handler = _handler(link, config)
            log.configure(settings.LogSettings(level="error"), [])
            link.sent = self._open_commands
            for name in _pipeline_names():
                await handler.serve(_in_hand(open_request(name)))
            link.sent = self._close_commands
            for name in _pipeline_names():
                await handler.serve(_in_hand(close_request(name)))
            await link.close()

        anyio.run(main)


def _pipeline_names() -> list[str]:
    return [load.identity(number) for number in range(PIPELINE_REQUESTS)]


def _handler(link: Link, config: settings.Settings) -> RequestHandler:
    store = SessionStore(link, config)
    effects = SessionEffects(link, config, store, lambda _: None)
    service = SessionService(config, store, effects, ExternalIds(link, config, store), DayIndex(link, config))
    services: dict[type, RequestService] = {
        control_pb2.OpenSession: service.open,
        control_pb2.CloseSession: service.close,
    }

    async def has_lost_since(at_ms: int) -> bool:
        del at_ms
        return False

    letters = DeadLetterWriter(link, config, kind="requests")
    return RequestHandler(link, config, letters, services, has_lost_since=has_lost_since)


def _in_hand(request: messages.Request) -> RequestInHand:
    entry_id = entry_ids.format_id(time.time_ns() // 1_000_000)
    entry = ControlEntry(REQUESTS, keys.DEFAULT_PRINCIPAL, entry_id, messages.pack(request), is_first_delivery=True)
    return RequestInHand(entry, request, request.identity, request.request_id)  # type: ignore[union-attr]


def bench_requests(quick: bool) -> Iterator[Case]:
    """How fast sessions are opened and closed."""
    requests = Requests(200 if quick else 5000)
    reference = "reference: the same commands of 1,000 of them in one redis-py pipeline"
    yield Case(
        f"opens by the daemon; {reference}",
        "opens/s",
        requests.opens_per_s,
        requests.opens_in_pipeline_per_s,
        bar=0.3,
    )
    yield Case(
        f"closes by the daemon; {reference}",
        "closes/s",
        requests.closes_per_s,
        requests.closes_in_pipeline_per_s,
        bar=0.3,
    )
