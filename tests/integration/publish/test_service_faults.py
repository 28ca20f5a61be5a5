"""A Session Service that is away, slow, hangs, refuses or has lost what it had, and a Redis that is full."""

import threading
from typing import Any

import anyio
import grpc
import pytest
import redis

from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.control import dead_letters
from rta_supervisor.control.dead_letters import DeadLetters
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish import publisher as publisher_module
from rta_supervisor.publish import status
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.publish.toolkit_client import ToolkitClient
from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.integration.publish.publishing_scene import LONG_AGO_S, Scene
from tests.support import proxy
from tests.support.toolkit_services import Fault

HOUR_MS = 3600 * 1000


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


async def test_sessions_that_always_fail_keep_no_others_from_being_told(scene: Scene) -> None:
    """A service may answer calls about some sessions with an error each time. When it has been left alone for that, a
    session that did not fail decides."""
    scene.services.fault = lambda _method, request: (
        Fault(grpc.StatusCode.UNKNOWN) if request.identity != "good" else None
    )
    for number in range(1, publisher_module.CALLS_AT_ONCE):
        await scene.save(f"run-{number}", number=number)
    await scene.round()
    for version in (1, 2):
        assert scene.publisher.breaker.is_open
        await scene.save("good", number=100, version=version, group=str(version))
        while scene.publisher.breaker.wait_s(anyio.current_time()) > 0:
            await scene.link.do("PING")
        await scene.round()
        assert scene.services.sessions["good"].group == str(version)


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
    assert await scene.round(LONG_AGO_S), "there is more to tell"
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


async def test_a_connection_that_was_forgotten_on_the_way(scene: Scene) -> None:
    """Where a firewall has dropped a connection and told nobody, a call without an answer is the last one over it."""
    with proxy.between(scene.services.address) as way:
        config = settings.PublishSettings(session_address=f"127.0.0.1:{way.port}", timeout_s=0.3)
        await scene.client.close()
        scene.client = ToolkitClient(config)
        scene.publisher = scene.new_publisher()
        await scene.save()
        await scene.round()
        way.forget_connections()
        await scene.save(version=2, group="g")
        await scene.round()
        assert scene.services.sessions["run-1"].group is None
        scene.client._timeout_s = 5
        await scene.round()
        assert scene.services.sessions["run-1"].group == "g"


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


async def test_a_reason_that_no_database_takes(scene: Scene) -> None:
    """What a service says may hold a NUL, which PostgreSQL takes in no text; it is kept without one."""
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.INVALID_ARGUMENT, details="bad\0group")
    await scene.save()
    await scene.round()
    assert await scene.catalogue.publications.refused(10) == [("run-1", "INVALID_ARGUMENT: bad\\x00group")]


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


async def test_a_dead_letter_that_can_not_be_written(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher sees why, other sessions are told all the same, and the letter comes with the next call."""
    add_letter = dead_letters.add_letter

    async def fail(*_: Any) -> None:
        raise redis.ConnectionError

    scene.services.fault = lambda _method, request: (
        Fault(grpc.StatusCode.INVALID_ARGUMENT) if request.identity == "run-1" else None
    )
    await scene.save()
    await scene.save("run-2", number=2)
    monkeypatch.setattr(dead_letters, "add_letter", fail)
    with pytest.raises(redis.ConnectionError):
        await scene.round()
    publication = await scene.catalogue.publications.get("run-2")
    assert publication is not None
    assert publication.told_version == 1
    monkeypatch.setattr(dead_letters, "add_letter", add_letter)
    await scene.round()
    assert [letter.entry for letter in await DeadLetters(scene.link, scene.config).newest(10)] == ["run-1"]


async def test_a_full_redis(scene: Scene, client: redis.Redis) -> None:
    """Sessions stay open in it. The service is told of their time ranges and that they are alive, and operators see how
    that goes."""
    await scene.save()
    await scene.round()
    client.config_set("maxmemory", 1)
    try:
        await scene.save(times=(1, 2))
        await scene.round(LONG_AGO_S)
        shown = PublishStatus(node="n", at_ms=1, period_s=5.0, waiting=0, oldest_s=0.0, refused=0, problem="")
        await scene.link.do(*status.write(scene.config.keys, shown))
    finally:
        client.config_set("maxmemory", 0)
    assert scene.services.sessions["run-1"].time_range == (1, 2)
    assert await status.read(scene.link, scene.config.keys) == shown


async def test_a_service_that_is_away_for_a_day(scene: Scene) -> None:
    """Sessions that open and end all day long, while supervisors are restarted, come as they ended, oldest first, and
    one that was open before ends too."""
    hours = iter(range(now_ms() - 25 * HOUR_MS, now_ms(), HOUR_MS))
    at_ms = next(hours)
    scene.clock = lambda: at_ms
    await scene.save("before", at_ms=at_ms)
    await scene.round()
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE)
    for number, at_ms in zip(range(2, 26), hours, strict=False):
        await scene.save(f"run-{number}", number=number, state=State.CLOSED, times=(1, number), at_ms=at_ms)
        scene.publisher = scene.new_publisher()
        await scene.round()
    await scene.save("before", state=State.FAILED, version=2, times=(1, 2), at_ms=at_ms)
    assert (await scene.catalogue.publications.backlog()).waiting == 25
    scene.services.requests.clear()
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()
    scene.publisher.breaker._failed = scene.publisher.breaker._limit  # so that one call decides
    await scene.round()
    assert scene.services.requests[0][1].identity == "run-2"
    stored = {name: (one.state, one.time_range) for name, one in scene.services.sessions.items()}
    assert stored == {
        "before": (State.FAILED.number, (1, 2)),
        **{f"run-{number}": (State.CLOSED.number, (1, number)) for number in range(2, 26)},
    }
    assert (await scene.catalogue.publications.backlog()).waiting == 0
