"""The publisher against a real Session Service, with catalogues of both kinds."""

import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import grpc
import pytest

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.catalogue.publications.model import Delivery
from rta_supervisor.control.dead_letters import DeadLetters
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish import content
from rta_supervisor.publish import publisher as publisher_module
from rta_supervisor.publish.config_uploads import ConfigUploads
from rta_supervisor.publish.publisher import Publisher
from rta_supervisor.publish.toolkit_client import ToolkitClient
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.breaker import Breaker
from rta_wire import keys, session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.toolkit_services import CONFIG_LIMIT_BYTES, Fault, ToolkitServices

LONG_AGO_S = 0.0
"""A period after which everything is told at each round."""

ONCE_S = 3600.0


class Scene:
    """A catalogue, a service, and publishers between them."""

    def __init__(self, link: Link, catalogue: Catalogue, services: ToolkitServices, config: settings.Settings) -> None:
        self.link = link
        self.catalogue = catalogue
        self.services = services
        self.config = config
        self.configs: dict[str, bytes] = {}
        self.client = ToolkitClient(config.publish)
        self.publisher = self.new_publisher()

    def new_publisher(self, name: str = "") -> Publisher:
        """One that knows nothing but what is stored."""
        publisher: Publisher

        async def source(identifier: str) -> bytes | None:
            return self.configs.get(identifier)

        async def refuse(identifier: str, reason: str) -> None:
            await publisher.refuse_config(identifier, reason)

        uploads = ConfigUploads(self.client, source, Breaker(failures=5, open_s=0.001), refuse)
        publisher = Publisher(self.link, self.catalogue, self.config, self.client, uploads, catalogue_name=name)
        return publisher

    async def save(
        self,
        identity: str = "run-1",
        state: State = State.OPEN,
        *,
        number: int = 1,
        version: int = 1,
        times: tuple[int, int] | None = None,
        at_ms: int | None = None,
        **properties: Any,
    ) -> CatalogueRow:
        """Save a row as a supervisor does."""
        document = session.build(identity, timestamp="2026-11-18T00:00:00+00:00", **properties)
        text = json.dumps(document | {"state": state.value})
        totals = Totals() if times is None else Totals(1, 1, 1, 1, *times)
        at_ms = now_ms() if at_ms is None else at_ms
        row = CatalogueRow(identity, "rig", number, "p", state, text, totals, version, at_ms, at_ms)
        await self.catalogue.save([row])
        return row

    async def round(self, period_s: float = ONCE_S) -> None:
        await self.publisher.run_round(period_s)

    def operations(self) -> list[list[str]]:
        """What each call changed, oldest first."""
        return [
            [update.WhichOneof("operation") for update in request.updates]
            for method, request in self.services.requests
            if method == "CreateOrUpdateSession"
        ]


@pytest.fixture
async def scene(
    url: str,
    link: Link,
    catalogue_settings: settings.CatalogueSettings,
    services: ToolkitServices,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(publisher_module, "FIRST_RETRY_S", 0.0001)
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=catalogue_settings,
        publish=settings.PublishSettings(
            session_address=services.address, config_address=services.address, timeout_s=5, breaker_open_s=0.001
        ),
    )
    catalogue = factory.create(config)
    made = Scene(link, catalogue, services, config)
    yield made
    await made.client.close()
    await catalogue.close()


async def test_a_life(scene: Scene) -> None:
    """Opened, grown, idle, described, closed: each is told once, in the call that is meant for it."""
    await scene.save()
    await scene.round()
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.OPEN.number
    assert scene.services.calls["CreateOrUpdateSession"] == 1
    await scene.save(times=(10, 20))
    await scene.round(LONG_AGO_S)
    await scene.round()
    await scene.save(times=(10, 20), version=2, group="g")
    await scene.round()
    await scene.save(times=(5, 30), version=3, state=State.CLOSED, group="g")
    await scene.round()
    await scene.round(LONG_AGO_S)
    opened, grown, described, closed = scene.operations()
    assert opened[-1] == "set_state"
    assert grown == ["extend_time_range"]
    assert "set_group" in described
    assert (closed[0], closed[-1]) == ("extend_time_range", "set_state")
    stored = scene.services.sessions["run-1"]
    assert (stored.state, stored.time_range, stored.group) == (State.CLOSED.number, (5, 30), "g")


async def test_heartbeats_while_idle(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open session that does not grow has heartbeats, and a closed one has none."""
    monkeypatch.setattr(scene.publisher, "_config", scene.config)
    await scene.save()
    await scene.save("run-2", State.CLOSED, number=2)
    clock_ms = now_ms()
    scene.publisher._clock = lambda: clock_ms
    for _ in range(3):
        clock_ms += 31_000
        await scene.round(5.0)
    heartbeats = {name: stored.heartbeats for name, stored in scene.services.sessions.items()}
    assert heartbeats == {"run-1": 2, "run-2": 0}


async def test_json_that_changed_under_the_same_version_is_told(scene: Scene) -> None:
    """Two supervisors that raised the same version merge to one row, which may be the other one."""
    await scene.save(group="a")
    await scene.round()
    await scene.save(group="b")
    await scene.round(LONG_AGO_S)
    await scene.save(group="b", times=(1, 2))
    await scene.round(LONG_AGO_S)
    assert scene.services.sessions["run-1"].group == "b"


async def test_a_session_of_a_moment_is_not_missed(scene: Scene) -> None:
    """One that is opened and closed between two rounds is told with its end."""
    await scene.round()
    await scene.save(state=State.FAILED, times=(1, 2))
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.FAILED.number


async def test_an_old_session_is_published_on_request_only(scene: Scene) -> None:
    """What ended before publishing was set up is left alone until an operator names it."""
    await scene.save(state=State.CLOSED, at_ms=now_ms() - 24 * 3600 * 1000)
    await scene.round()
    assert scene.services.sessions == {}
    await scene.link.do("XADD", scene.config.keys.publish_retries(), "*", keys.RETRY_IDENTITY, "run-1")
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.CLOSED.number
    assert await scene.link.do("XLEN", scene.config.keys.publish_retries()) == 0


async def test_another_session_of_an_identity(scene: Scene) -> None:
    """The service has the newest one, with nothing of the one before."""
    await scene.save(state=State.CLOSED, times=(1, 100), extDetails={"car": {"n": 1}}, type="race")
    await scene.round()
    await scene.save(number=2, times=(500, 600))
    await scene.round()
    stored = scene.services.sessions["run-1"]
    assert (stored.state, stored.time_range, stored.type) == (State.OPEN.number, (500, 600), None)
    assert stored.shown()["details"] == {}


async def test_a_lost_reply_leaves_no_detail_behind(scene: Scene) -> None:
    """A category that a call set whose reply was lost is cleared by the next call, which has it no more."""
    await scene.save(extDetails={"car": {"n": 1}})
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE, is_applied=True)
    await scene.round()
    assert scene.services.sessions["run-1"].details["car"] == {"n": 1}
    await scene.save(version=2)
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()
    await scene.round()
    assert scene.services.sessions["run-1"].shown()["details"] == {}


async def test_categories_that_were_cleared_are_forgotten(scene: Scene) -> None:
    """A session that invents new ones with each change does not add up all of them."""
    for version in range(1, 6):
        await scene.save(version=version, extDetails={f"group-{version}": {"n": 1}})
        await scene.round()
    await scene.save(version=6)
    await scene.round()
    [*_, request] = [request for method, request in scene.services.requests if method == "CreateOrUpdateSession"]
    told = [update.set_details_json.category for update in request.updates if update.HasField("set_details_json")]
    assert told == ["", "group-5"]
    assert scene.services.sessions["run-1"].shown()["details"] == {}


async def test_a_service_that_is_away_gets_everything_afterwards(scene: Scene) -> None:
    """Nothing is sent while the breaker is open; then one call decides, and all the others follow in their order."""
    for number in range(30):
        await scene.save(f"run-{number}", number=number + 1)
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE, details="away")
    scene.publisher.breaker._open_s = 3600.0
    await scene.round()
    failed = scene.services.calls["CreateOrUpdateSession"]
    assert failed < 30
    await scene.round()
    assert scene.services.calls["CreateOrUpdateSession"] == failed
    assert "away" in scene.publisher.problem
    for number in range(30):
        await scene.save(f"run-{number}", State.CLOSED, number=number + 1, version=2)
    backlog = await scene.catalogue.publications.backlog()
    assert backlog.waiting == 30
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()  # the supervisor was restarted meanwhile
    await scene.round()
    told = [request.identity for _, request in scene.services.requests[failed:]]
    positions = {identity: told.index(identity) for identity in set(told)}
    assert all(abs(positions[f"run-{number}"] - number) < publisher_module.CALLS_AT_ONCE for number in range(30))
    assert {stored.state for stored in scene.services.sessions.values()} == {State.CLOSED.number}
    assert (await scene.catalogue.publications.backlog()).waiting == 0


async def test_one_call_decides_whether_a_service_is_back(scene: Scene) -> None:
    """After a pause the service is not flooded with calls that fail again."""
    for number in range(30):
        await scene.save(f"run-{number}", number=number + 1)
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE)
    await scene.round()
    assert scene.publisher.breaker.is_open
    failed = scene.services.calls["CreateOrUpdateSession"]
    while scene.publisher.breaker.wait_s(anyio.current_time()) > 0:
        await scene.link.do("PING")
    await scene.round()
    assert scene.services.calls["CreateOrUpdateSession"] == failed + 1


async def test_a_session_that_fails_waits_and_others_do_not(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that failed is not repeated at once, and at once when its service is back."""
    monkeypatch.setattr(publisher_module, "FIRST_RETRY_S", 600.0)
    scene.services.fault = lambda _method, request: (
        Fault(grpc.StatusCode.INTERNAL) if request.identity == "run-1" else None
    )
    await scene.save()
    for number in (2, 3):
        await scene.save(f"run-{number}", number=number)
        await scene.round()
    assert sorted(scene.services.sessions) == ["run-2", "run-3"]
    assert scene.services.calls["CreateOrUpdateSession"] == 3
    scene.services.fault = lambda _method, _request: None
    scene.publisher.breaker._failed = 5  # others have failed too, and the service has been away
    await scene.save("run-4", number=4)
    await scene.round()
    await scene.round()
    assert "run-1" in scene.services.sessions


async def test_what_opens_meanwhile_does_not_wait_for_a_slow_service(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round ends although not everything is told, and the next one begins with what opened or ended."""
    for number in range(100):
        await scene.save(f"run-{number}", number=number + 1)
    await scene.round()
    monkeypatch.setattr(publisher_module, "ROUND_S", 0.05)
    for number in range(100):
        await scene.save(f"run-{number}", number=number + 1, times=(1, 2))
    scene.services.fault = lambda _method, _request: Fault(takes_s=0.1)
    assert await scene.publisher.run_round(LONG_AGO_S), "there is more to tell"
    told = scene.services.calls["CreateOrUpdateSession"]
    assert told < 150
    await scene.save("run-new", number=101)
    await scene.round(LONG_AGO_S)
    requests = [request.identity for method, request in scene.services.requests if method == "CreateOrUpdateSession"]
    assert "run-new" in requests[told : told + publisher_module.CALLS_AT_ONCE]


async def test_a_call_that_hangs_delays_nothing_else(scene: Scene) -> None:
    """It ends at its deadline, and when it is applied at last it is too old."""
    released = threading.Event()
    scene.client._timeout_s = 0.3
    await scene.save()
    await scene.save("run-2", number=2)
    scene.services.fault = lambda _method, request: Fault(waits_for=released) if request.identity == "run-1" else None
    await scene.round()
    assert list(scene.services.sessions) == ["run-2"]
    scene.services.fault = lambda _method, _request: None
    scene.client._timeout_s = 5
    await scene.save(state=State.CLOSED, version=2)
    scene.publisher = scene.new_publisher()
    await scene.round()
    released.set()
    while not scene.services.ignored:
        await scene.link.do("PING")
    assert scene.services.sessions["run-1"].state == State.CLOSED.number


async def test_a_refused_call_is_a_dead_letter_and_not_repeated(scene: Scene) -> None:
    """It waits for a change of the session or for an operator."""
    scene.services.fault = lambda _method, request: (
        Fault(grpc.StatusCode.INVALID_ARGUMENT, details="no such group") if "bad" in str(request) else None
    )
    await scene.save(group="bad")
    await scene.save("run-2", number=2)
    for _ in range(3):
        await scene.round(LONG_AGO_S)
    letters = await DeadLetters(scene.link, scene.config).newest(10)
    assert [(letter.entry, letter.code) for letter in letters] == [("run-1", "PublishRefused")]
    assert "no such group" in letters[0].reason
    assert await scene.catalogue.publications.refused(10) == [("run-1", "INVALID_ARGUMENT: no such group")]
    assert list(scene.services.sessions) == ["run-2"]
    await scene.save(group="good", version=2)
    await scene.round()
    assert scene.services.sessions["run-1"].group == "good"
    assert await scene.catalogue.publications.refused(10) == []


async def test_refused_sessions_are_tried_again_on_request(scene: Scene) -> None:
    """`publish retry --all` has all of them tried, by whoever publishes, after a restart too."""
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.INVALID_ARGUMENT)
    await scene.save()
    await scene.round()
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()
    await scene.round(LONG_AGO_S)
    assert scene.services.sessions == {}
    await scene.link.do("XADD", scene.config.keys.publish_retries(), "*", keys.RETRY_IDENTITY, "")
    await scene.round()
    assert "run-1" in scene.services.sessions


async def test_a_damaged_row_is_a_dead_letter(scene: Scene) -> None:
    """Session JSON that can't be told keeps no other session from being told."""
    row = await scene.save()
    await scene.catalogue.save([CatalogueRow(*(row.identity, "rig", 9, "p", State.OPEN, "{}", Totals(), 1, 1, 1))])
    await scene.save("run-2", number=2)
    await scene.round()
    assert list(scene.services.sessions) == ["run-2"]
    [letter] = await DeadLetters(scene.link, scene.config).newest(10)
    assert letter.entry == "run-1"


async def test_a_service_that_lost_a_session_is_told_everything(scene: Scene) -> None:
    """A time range of a session that the service does not have is no reason to give up."""
    await scene.save(group="g", times=(1, 2))
    await scene.round()
    scene.services.sessions.clear()
    await scene.save(group="g", times=(1, 3))
    await scene.round(LONG_AGO_S)
    scene.publisher = scene.new_publisher()
    await scene.round(LONG_AGO_S)
    stored = scene.services.sessions["run-1"]
    assert (stored.group, stored.time_range) == ("g", (1, 3))


async def test_configurations_come_first(scene: Scene) -> None:
    """Small ones in a message, large ones in pieces, those that are there not at all; the first one stays."""
    scene.configs = {"small": b"{}", "large": b"x" * (CONFIG_LIMIT_BYTES + 1), "there": b"ours"}
    scene.services.configs["there"] = b"theirs"
    bindings = [{"identifier": name, "channelOffset": 0} for name in ("small", "large", "there", "nowhere")]
    await scene.save(configBindings=bindings)
    await scene.save("run-2", number=2, configBindings=bindings[:1])
    await scene.round()
    assert scene.services.configs == {**scene.configs, "there": b"theirs"}
    assert scene.services.calls["PutConfig"] == 1
    assert scene.services.calls["PutConfigStream"] == 1
    methods = [method for method, _ in scene.services.requests]
    assert methods.index("CreateOrUpdateSession") > max(methods.index("PutConfig"), methods.index("PutConfigStream"))
    assert scene.services.sessions["run-1"].bindings == dict.fromkeys(("small", "large", "there", "nowhere"), 0)


async def test_a_session_waits_for_its_configuration(scene: Scene) -> None:
    """While the Config Service fails, sessions that are bound are not told, and others are."""
    scene.configs = {"c": b"{}"}
    scene.services.fault = lambda method, _request: (
        Fault(grpc.StatusCode.UNAVAILABLE) if method == "PutConfig" else None
    )
    await scene.save(configBindings=[{"identifier": "c", "channelOffset": 0}])
    await scene.save("run-2", number=2)
    await scene.round()
    assert list(scene.services.sessions) == ["run-2"]
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()
    await scene.round()
    assert scene.services.configs == {"c": b"{}"}
    assert "run-1" in scene.services.sessions


async def test_a_refused_configuration_is_a_dead_letter(scene: Scene) -> None:
    """It is tried once, and the session is told without it."""
    scene.configs = {"c": b"{}"}
    scene.services.fault = lambda method, _request: (
        Fault(grpc.StatusCode.INVALID_ARGUMENT, details="not a configuration") if method == "PutConfig" else None
    )
    await scene.save(configBindings=[{"identifier": "c", "channelOffset": 0}])
    await scene.round()
    await scene.save(version=2, configBindings=[{"identifier": "c", "channelOffset": 0}])
    await scene.round()
    assert scene.services.calls["PutConfig"] == 1
    assert "run-1" in scene.services.sessions
    [letter] = await DeadLetters(scene.link, scene.config).newest(10)
    assert "not a configuration" in letter.reason


async def test_sequences_never_go_back(scene: Scene) -> None:
    """Not when Redis forgets them, not when the catalogue is new, and not when the clock goes back."""
    await scene.save()
    await scene.round()
    first = scene.services.sequences["run-1"]
    assert abs(first - now_ms()) < 60_000
    await scene.link.do("DEL", scene.config.keys.publishing())
    scene.publisher = scene.new_publisher()
    scene.publisher._clock = lambda: 1
    await scene.save(version=2, group="g")
    await scene.round()
    assert scene.services.sequences["run-1"] == first + 1
    assert scene.services.sessions["run-1"].group == "g"
    # Another catalogue has published since, by a clock that is ahead.
    await scene.link.do("HSET", scene.config.keys.publishing(), keys.PUBLISHING_SEQUENCE, first + 10)
    await scene.save(version=3, group="h")
    await scene.round()
    assert scene.services.sequences["run-1"] == first + 11


async def test_what_an_earlier_call_told_is_not_saved_over_a_later_one(scene: Scene) -> None:
    """Of two that publish at once the service keeps what came with the higher sequence, and so does the catalogue."""
    await scene.save(group="a")
    await scene.round()
    [before] = await scene.catalogue.publications.due(range_before_ms=0, heartbeat_before_ms=now_ms() + 1, limit=1)
    await scene.save(group="b", version=2)
    [after] = await scene.catalogue.publications.due(range_before_ms=0, heartbeat_before_ms=0, limit=1)
    sequence = scene.services.sequences["run-1"]
    # Whoever had read the old row was the last to get a sequence, and the first to save.
    for due, later in ((before, 2), (after, 1)):
        delivery = Delivery(due, sequence + later, content.digest(due.json), (), at_ms=now_ms())
        await scene.catalogue.publications.save_deliveries([delivery])
    status = await scene.catalogue.publications.get("run-1")
    assert status is not None
    assert (status.sequence, status.told_version) == (sequence + 2, 1)
    await scene.round()
    assert scene.services.sessions["run-1"].group == "b"


async def test_an_end_that_is_only_inferred_is_not_published(scene: Scene) -> None:
    """A host that finds a session ended does not know how; another one has published it."""
    await scene.save()
    await scene.round()
    await scene.catalogue.publications.skip([("run-1", 1, 1)])
    await scene.save(state=State.ABANDONED)
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.OPEN.number
    await scene.save(state=State.CLOSED, version=2)
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.CLOSED.number


async def test_another_catalogue_does_not_repeat_old_sessions(scene: Scene) -> None:
    """Where another host published since, its catalogue alone knows how older sessions ended."""
    hour_ms, key = 3600 * 1000, scene.config.keys.publishing()
    await scene.catalogue.publications.raise_mark("closed_seen_ms", now_ms() - 2 * hour_ms)
    await scene.save(state=State.CLOSED, at_ms=now_ms() - hour_ms)
    for catalogue_name, identities in (("another", []), (scene.catalogue.name, ["run-1"])):
        await scene.link.do("HSET", key, keys.PUBLISHING_CATALOGUE, catalogue_name)
        await scene.link.do("EXPIRE", key, 60)
        scene.publisher = scene.new_publisher()
        await scene.round()
        assert list(scene.services.sessions) == identities
