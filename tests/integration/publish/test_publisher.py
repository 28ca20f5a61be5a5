"""The publisher against a real Session Service, with catalogues of both kinds."""

import itertools

from rta_supervisor.nodes.server_clock import now_ms
from rta_wire import keys
from rta_wire.session import State
from tests.integration.publish.publishing_scene import LONG_AGO_S, Scene

HOUR_MS = 3600 * 1000


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


async def test_heartbeats_while_idle(scene: Scene) -> None:
    """An open session that does not grow has heartbeats, and a closed one has none."""
    await scene.save()
    await scene.save("run-2", State.CLOSED, number=2)
    clock_ms = now_ms()
    scene.clock = lambda: clock_ms
    for _ in range(3):
        clock_ms += 31_000
        await scene.round(5.0)
    heartbeats = {name: stored.heartbeats for name, stored in scene.services.sessions.items()}
    assert heartbeats == {"run-1": 2, "run-2": 0}


async def test_ranges_are_told_at_the_period_and_not_a_look_later(scene: Scene) -> None:
    """The catalogue is looked at every second. A call takes some time, and looks come a little early or late."""
    clock_ms = now_ms()
    call_ms = itertools.count()
    scene.clock = lambda: clock_ms + 20 * next(call_ms)
    await scene.save()
    await scene.round(5.0)
    told_at: list[int] = []
    for second in range(1, 16):
        clock_ms += 1000 + (-1) ** second
        call_ms = itertools.count()
        await scene.save(times=(1, second))
        await scene.round(5.0)
        if scene.services.sessions["run-1"].time_range == (1, second):
            told_at.append(second)
    assert told_at == [5, 10, 15]


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


async def test_a_session_that_ended_while_nobody_published(scene: Scene) -> None:
    """Where publishing was set up for a moment only, what opens and ends after it is published by the next one."""
    at_ms = now_ms() - HOUR_MS
    scene.clock = lambda: at_ms
    await scene.round()
    await scene.save(state=State.CLOSED, at_ms=at_ms + HOUR_MS // 2)
    at_ms += HOUR_MS
    scene.publisher = scene.new_publisher()
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.CLOSED.number


async def test_a_session_that_a_newer_one_has_followed(scene: Scene) -> None:
    """Its row may say that it is open, of a supervisor that died. The newer one of its identity is what counts."""
    await scene.save()
    await scene.save(state=State.CLOSED, number=2, at_ms=now_ms() - HOUR_MS)
    await scene.round()
    assert scene.services.sessions == {}


async def test_another_session_of_an_identity(scene: Scene) -> None:
    """The service has the newest one, with nothing of the one before."""
    await scene.save(state=State.CLOSED, times=(1, 100), extDetails={"car": {"n": 1}}, type="race")
    await scene.round()
    await scene.save(number=2, times=(500, 600))
    await scene.round()
    stored = scene.services.sessions["run-1"]
    assert (stored.state, stored.time_range, stored.type) == (State.OPEN.number, (500, 600), None)
    assert stored.shown()["details"] == {}


async def test_a_clock_that_went_back(scene: Scene) -> None:
    """As that of a Redis that has taken over. What was told is not taken for newer than it is, and what opened and
    ended since is found."""
    await scene.save()
    await scene.round()
    at_ms = now_ms() - HOUR_MS
    scene.clock = lambda: at_ms
    await scene.save(times=(1, 2), at_ms=at_ms)
    await scene.save("run-2", State.CLOSED, number=2, at_ms=at_ms)
    await scene.round(5.0)
    assert scene.services.sessions["run-1"].time_range == (1, 2)
    assert scene.services.sessions["run-2"].state == State.CLOSED.number
