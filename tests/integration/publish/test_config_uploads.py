"""Configurations that sessions are bound to, and a real Config Service."""

from typing import Any

import grpc
import pytest

from rta_supervisor.control.dead_letters import DeadLetters
from rta_supervisor.publish import config_uploads
from rta_supervisor.publish import publisher as publisher_module
from rta_wire import keys
from tests.integration.publish.publishing_scene import LONG_AGO_S, Scene
from tests.support.toolkit_services import CONFIG_LIMIT_BYTES, Fault


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


def bound_to(*identifiers: str) -> list[dict[str, Any]]:
    """Bindings of a session to configurations."""
    return [{"identifier": identifier, "channelOffset": 0} for identifier in identifiers]


@pytest.mark.parametrize("details", [{}, {"text": "x" * 5000}])
async def test_a_configuration_that_comes_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, details: dict[str, str]
) -> None:
    """One that nobody has keeps no session waiting. It is looked for again while the session is open, by another
    publisher too, and nothing is told as a whole any more once it is there."""
    monkeypatch.setattr(config_uploads, "MISSING_PAUSE_S", 0.0)
    await scene.save(configBindings=bound_to("late"), details=details)
    await scene.round()
    assert list(scene.services.sessions["run-1"].bindings) == ["late"]
    scene.configs = {"late": b"{}"}
    scene.publisher = scene.new_publisher()
    for end_ns in (2, 3):
        await scene.save(configBindings=bound_to("late"), details=details, times=(1, end_ns))
        await scene.round(LONG_AGO_S)
    assert scene.services.configs == {"late": b"{}"}
    assert scene.operations()[-1] == ["extend_time_range"]
    assert scene.services.sessions["run-1"].time_range == (1, 3)


async def test_a_missing_configuration_is_not_asked_for_all_the_time(scene: Scene) -> None:
    """Time ranges come more often than it is looked for."""
    for end_ns in range(2, 6):
        await scene.save(configBindings=bound_to("nowhere"), times=(1, end_ns))
        await scene.round(LONG_AGO_S)
    assert scene.services.calls["HasConfig"] == 1
    assert scene.services.sessions["run-1"].time_range == (1, 5)


async def test_a_refused_configuration_is_tried_again_on_request(scene: Scene) -> None:
    """`publish retry` of a session asks for its configurations too."""
    scene.configs = {"c": b"{}"}
    scene.services.fault = lambda method, _request: (
        Fault(grpc.StatusCode.INVALID_ARGUMENT) if method == "PutConfig" else None
    )
    await scene.save(configBindings=bound_to("c"))
    await scene.round()
    scene.services.fault = lambda _method, _request: None
    await scene.link.do("XADD", scene.config.keys.publish_retries(), "*", keys.RETRY_IDENTITY, "run-1")
    await scene.round()
    assert scene.services.configs == {"c": b"{}"}


async def test_many_configurations_do_not_keep_others_waiting(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow Config Service is asked for a while in each round; sessions without configurations are told meanwhile, and
    all come in the end."""
    monkeypatch.setattr(publisher_module, "ROUND_S", 0.05)
    names = [f"c-{number}" for number in range(8)]
    scene.configs = dict.fromkeys(names, b"{}")
    for number, name in enumerate(names):
        await scene.save(f"run-{number}", number=number + 1, configBindings=bound_to(name))
    await scene.save("free", number=100)
    scene.services.fault = lambda method, _request: Fault(takes_s=0.03) if method == "HasConfig" else None
    assert await scene.round(), "there is more to tell at once"
    assert "free" in scene.services.sessions
    assert 0 < len(scene.services.configs) < len(names)
    rounds = 1
    while await scene.round():
        rounds += 1
        assert rounds < len(names)
    assert len(scene.services.sessions) == len(names) + 1


async def test_a_config_service_that_is_away_is_left_alone(scene: Scene) -> None:
    """After some failures nothing is asked, the reason is known, and what was stored before is asked for again."""
    scene.configs = dict.fromkeys((f"c-{number}" for number in range(10)), b"{}")
    await scene.save("first", number=100, configBindings=bound_to("c-0"))
    await scene.round()
    for number in range(1, 10):
        await scene.save(f"run-{number}", number=number, configBindings=bound_to(f"c-{number}"))
    scene.services.fault = lambda method, _request: (
        Fault(grpc.StatusCode.UNAVAILABLE, details="away") if method == "HasConfig" else None
    )
    configs = scene.publisher._configs
    configs._breaker._open_s = 3600.0
    asked = scene.services.calls["HasConfig"]
    await scene.round()
    assert scene.services.calls["HasConfig"] == asked + configs._breaker._limit
    assert "away" in configs.problem
    scene.services.fault = lambda _method, _request: None
    configs._breaker._open_until_s = 0.0
    scene.services.configs.clear()  # it has lost everything
    for version in (2, 3):
        await scene.save("first", number=100, version=version, configBindings=bound_to("c-0"))
        await scene.round()
    assert configs.problem == ""
    assert scene.services.configs == scene.configs
