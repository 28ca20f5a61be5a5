"""Random lives of sessions that are published, with faults on the way to the service and publishers that die.

The lives are those of `test_random_sessions`. The service is a real one over gRPC. At the end it has to hold exactly
what the catalogue says, and what it held on the way never went back.
"""

import itertools
import json
import os
import pathlib
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import grpc
import hypothesis
import hypothesis.stateful
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.embedded import server
from rta_supervisor.publish import publisher as publisher_module
from rta_supervisor.publish.config_uploads import ConfigUploads
from rta_supervisor.publish.publisher import Publisher
from rta_supervisor.publish.toolkit_client import ToolkitClient
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.webhooks.breaker import Breaker
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.chaos.test_random_sessions import Killed, Lives, MortalLink, identities
from tests.support import supervisor_parts
from tests.support.session_values import control_entry
from tests.support.toolkit_services import Fault, ToolkitServices

EXAMPLES = 2000 if os.environ.get("RTA_SOAK") else 20
STEPS = 12
STEPS_EACH = 3
"""Steps of the script after each step of hypothesis."""
CALL_TIMEOUT_S = 0.1
ROUNDS_MAX = 30

KINDS = ("none", "fail", "internal", "lose_reply", "arrive_late", "refuse")
faults = st.lists(st.sampled_from(["none", "none", *KINDS]), max_size=4)
categories = st.sampled_from(["", "car", "track"])
which = st.integers(0, 1)
scripts = st.lists(
    st.one_of(
        st.tuples(st.just("write"), identities, st.just("u"), st.integers(1, 2), st.just(True)),
        st.tuples(st.just("describe"), identities, categories),
        st.tuples(st.just("catalogue_is_written")),
        st.tuples(st.just("progress_is_written")),
        st.tuples(st.just("publish"), which, faults, st.booleans()),
        st.tuples(st.just("both_publish"), faults),
        st.tuples(st.just("publish_across_a_change"), which, identities, categories, faults),
        st.tuples(st.just("late_calls_arrive")),
    ),
    min_size=STEPS,
    max_size=STEPS * STEPS_EACH,
)
"""What happens most, by the names of rules: hypothesis leaves out most rules in each of its examples."""


class PublishedLives(Lives):
    """The lives of sessions, with a catalogue that is written now and then, and two publishers that take turns."""

    service_: ToolkitServices
    client_: ToolkitClient

    @initialize(script=scripts)
    def start(self, script: list[tuple[Any, ...]]) -> None:
        self.script = list(script)
        self.directory = tempfile.TemporaryDirectory(prefix="rtas-publish-")
        self.released = threading.Event()
        self.described: dict[str, int] = {}
        services = self.service_
        services.fault = lambda _method, _request: None
        for stored in (services.sessions, services.sequences, services.history, services.calls, services.requests):
            stored.clear()
        services.configs.clear()
        self.refused_configs: set[str] = set()
        services.ignored = 0
        self.config = settings.Settings(
            redis=settings.RedisSettings(url=self.url),
            publish=settings.PublishSettings(
                session_address=services.address,
                config_address=services.address,
                timeout_s=CALL_TIMEOUT_S,
                breaker_open_s=0.001,
            ),
        )
        self.catalogue = SqliteCatalogue(pathlib.Path(self.directory.name) / "catalogue.sqlite")
        self.writer = CatalogueWriter(self.link, self.catalogue, self.config)
        super().start()
        self.publishers = [self.new_publisher(), self.new_publisher()]
        for identity in ("a", "b"):
            self.open(identity, "rig", 0)

    def new_supervisor(self) -> None:
        self.link.lives = 0
        self.sessions = SessionStore(self.link, self.config, clock=lambda: self.now_ms)
        self.service = supervisor_parts.service(
            self.link, self.config, self.sessions, self.writer.mark_changed, clock=lambda: self.now_ms
        )
        self.watchdog = SilenceWatchdog(self.sessions, self.service, self.config, lambda: 0, clock=lambda: self.now_ms)

    def serve(self, work: Any, lives: int) -> Any:
        try:
            return super().serve(work, lives)
        finally:
            self.link.lives = 0  # what follows is done by others

    def new_publisher(self) -> Publisher:
        """Knows nothing but what is in Redis and in the catalogue."""

        async def config_of(identifier: str) -> bytes | None:
            return identifier.encode()

        async def refused(identifier: str, _reason: str) -> None:
            self.refused_configs.add(identifier)

        breaker = Breaker(failures=1, open_s=0.001)
        uploads = ConfigUploads(self.client_, config_of, breaker, refused)
        return Publisher(self.link, self.catalogue, self.config, self.client_, uploads)

    @rule()
    def catalogue_is_written(self) -> None:
        """Until then nobody publishes what has happened."""
        self.portal.call(self.writer.flush_changes)

    @rule()
    def progress_is_written(self) -> None:
        """The totals of sessions come into the catalogue without a change of their JSON."""
        refs, _ = self.portal.call(self.sessions.open_and_closed)
        self.writer.record_progress(self.portal.call(self.sessions.refresh, refs))
        self.portal.call(self.writer.flush_progress)

    @invariant()
    def sessions_grow_and_are_published(self) -> None:
        """Goes on with the script between the steps that hypothesis chooses."""
        for _ in range(STEPS_EACH):
            if getattr(self, "script", None):
                name, *arguments = self.script.pop()
                getattr(self, name)(*arguments)

    @rule(identity=identities, category=categories)
    def describe(self, identity: str, category: str) -> None:
        """Details that count up, in one category at a time: others are removed by it. Those have a configuration."""
        if identity not in self.model:
            return
        self.described[identity] = number = self.described.get(identity, 0) + 1
        properties: dict[str, Any] = {
            "details": {"n": number},
            "extDetails": {category: {"m": 1.5}} if category else {},
            "configBindings": [{"identifier": f"{category}-{number % 3}", "channelOffset": 0}] if category else [],
        }
        request = control_pb2.UpdateSession(identity=identity, properties_json=json.dumps(properties))
        entry_id = self.entry_id()
        self.serve(lambda: self.service.update(control_entry("p", entry_id), request), 0)

    @rule(which=which, kinds=faults, dies=st.booleans())
    def publish(self, which: int, kinds: list[str], dies: bool) -> None:
        """One round, in which calls fail, their replies are lost, or they arrive when later ones have. One that dies
        has told things of which it has saved nothing."""
        self.service_.fault = self.faults_of(kinds)
        publisher = self.publishers[which]
        if dies:

            async def die(*_: Any) -> None:
                raise Killed

            publisher._save = die  # type: ignore[method-assign, assignment]
        try:
            self.portal.call(run_round, publisher)
        except Killed:
            pass
        finally:
            self.service_.fault = lambda _method, _request: None
            if dies:
                self.publishers[which] = self.new_publisher()

    @rule(kinds=faults)
    def both_publish(self, kinds: list[str]) -> None:
        """One whose lease is over publishes beside the one that has it now."""
        self.service_.fault = self.faults_of(kinds)

        async def rounds() -> None:
            async with anyio.create_task_group() as group:
                for publisher in self.publishers:
                    group.start_soon(run_round, publisher)

        self.portal.call(rounds)
        self.service_.fault = lambda _method, _request: None

    @rule(which=which, identity=identities, category=categories, kinds=faults)
    def publish_across_a_change(self, which: int, identity: str, category: str, kinds: list[str]) -> None:
        """One reads what is due and stops for a while. Meanwhile a session changes, and the other one tells that."""
        frozen = self.publishers[which]
        prepare = frozen._prepared
        has_read, goes_on = threading.Event(), threading.Event()

        async def stop_and_prepare(*arguments: Any) -> Any:
            has_read.set()
            await anyio.to_thread.run_sync(goes_on.wait)
            return await prepare(*arguments)

        frozen._prepared = stop_and_prepare  # type: ignore[method-assign, assignment]
        telling = self.portal.start_task_soon(run_round, frozen)
        while not has_read.wait(0.001) and not telling.done():
            pass
        try:
            self.describe(identity, category)
            self.catalogue_is_written()
            self.publish(1 - which, kinds, dies=False)
        finally:
            goes_on.set()
            telling.result()
            frozen._prepared = prepare  # type: ignore[method-assign]

    @rule()
    def late_calls_arrive(self) -> None:
        """Calls that hung are applied now, by a service that has seen later ones."""
        self.released.set()
        self.released = threading.Event()

    @rule()
    def redis_forgets_publishing(self) -> None:
        """What Redis knows of sequences is lost."""
        self.client.delete("rtas:publish")

    @rule(which=which)
    def publisher_restarts(self, which: int) -> None:
        self.publishers[which] = self.new_publisher()

    def faults_of(self, kinds: list[str]) -> Any:
        remaining = list(kinds)
        released = self.released

        def fault(method: str, _request: Any) -> Fault | None:
            kind = remaining.pop() if remaining else "none"
            if kind == "arrive_late" and method != "CreateOrUpdateSession":
                kind = "fail"  # a configuration that arrives late changes nothing: the first one stays
            return {
                "none": None,
                "fail": Fault(grpc.StatusCode.UNAVAILABLE),
                "internal": Fault(grpc.StatusCode.INTERNAL),
                "lose_reply": Fault(grpc.StatusCode.UNAVAILABLE, is_applied=True),
                "arrive_late": Fault(waits_for=released),
                "refuse": Fault(grpc.StatusCode.INVALID_ARGUMENT),
            }[kind]

        return fault

    def teardown(self) -> None:
        if hasattr(self, "directory") and hasattr(self, "publishers"):
            try:
                self.check_end()
            finally:
                self.released.set()
                self.portal.call(self.catalogue.close)
                self.directory.cleanup()
        super().teardown()

    def check_end(self) -> None:
        """Without faults the service has in the end what the catalogue says; what hung until then changes nothing."""
        self.portal.call(self.writer.flush_changes)
        publisher = self.new_publisher()
        self.portal.call(self.catalogue.publications.retry_refused)
        for _ in range(ROUNDS_MAX):
            self.portal.call(run_round, publisher)
            if not self.portal.call(self.catalogue.publications.backlog).waiting:
                break
        expected = {row.identity: shown(row) for row in self.newest_rows()}
        assert {name: stored.shown() for name, stored in self.service_.sessions.items()} == expected
        self.released.set()
        assert {name: stored.shown() for name, stored in self.service_.sessions.items()} == expected
        for identity, states in self.service_.history.items():
            check_history(identity, states)
        self.check_configs()

    def check_configs(self) -> None:
        """Every configuration was stored before a session that is bound to it, unless the service refused it."""
        asked: set[str] = set()
        for method, request in self.service_.requests:
            if method != "CreateOrUpdateSession":
                asked.add(request.identifier)
                continue
            for update in request.updates:
                assert {binding.identifier for binding in update.set_config_bindings.bindings} <= asked
        bound = {name for states in self.service_.history.values() for state in states for name in state["bindings"]}
        assert bound - self.refused_configs <= self.service_.configs.keys()

    def newest_rows(self) -> list[CatalogueRow]:
        rows: dict[str, CatalogueRow] = {}
        for row in self.portal.call(lambda: self.catalogue.find(Query(), limit=100)):
            rows.setdefault(row.identity, row)
        return list(rows.values())


async def run_round(publisher: Publisher) -> None:
    """One round, in which every time range counts as old."""
    await publisher.run_round(0.0, await publisher.last_sequence())


def shown(row: CatalogueRow) -> dict[str, Any]:
    """What the service should hold of a session, from its row alone."""
    document = json.loads(row.json)
    categories = {"": document.get("details") or {}, **(document.get("extDetails") or {})}
    return {
        "state": State(row.state).number,
        "timestamp": document["timestamp"],
        "identifier": document["identifier"],
        "time_range": row.totals.time_range_ns,
        "type": document.get("type"),
        "quality": document.get("quality"),
        "group": document.get("group"),
        "version": document.get("version"),
        "details": {name: values for name, values in categories.items() if values},
        "bindings": {
            binding["identifier"]: binding["channelOffset"] for binding in document.get("configBindings") or ()
        },
    }


def check_history(identity: str, states: Sequence[dict[str, Any]]) -> None:
    """No state of a session that the service ever held was older than the one before."""
    for before, after in itertools.pairwise(states):
        if before["timestamp"] != after["timestamp"]:
            continue  # another session of the same identity
        assert before["state"] < 4 or after["state"] == before["state"], identity
        assert before["details"].get("", {}).get("n", 0) <= after["details"].get("", {}).get("n", 0), identity
        if before["time_range"] is not None:
            assert after["time_range"] is not None
            assert after["time_range"][0] <= before["time_range"][0]
            assert after["time_range"][1] >= before["time_range"][1]


@pytest.mark.timeout(14_400)
def test_the_service_ends_as_the_catalogue_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to sessions, publishers, calls and replies, the service ends with what the catalogue has."""
    monkeypatch.setattr(publisher_module, "FIRST_RETRY_S", 0.0001)
    services = ToolkitServices()
    with (
        services.running(),
        server.running() as running,
        anyio.from_thread.start_blocking_portal() as portal,
    ):
        machine = PublishedLives
        machine.portal, machine.url, machine.service_ = portal, running.url, services
        machine.link = portal.call(MortalLink, settings.RedisSettings(url=running.url))
        publish = settings.PublishSettings(
            session_address=services.address, config_address=services.address, timeout_s=CALL_TIMEOUT_S
        )

        async def connect() -> ToolkitClient:
            return ToolkitClient(publish)

        machine.client_ = portal.call(connect)
        portal.call(function_loader.load, machine.link)
        hypothesis.stateful.run_state_machine_as_test(
            machine,
            settings=hypothesis.settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )
        portal.call(machine.client_.close)
        portal.call(machine.link.close)
