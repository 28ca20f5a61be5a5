"""Supervisors that publish, as processes: from a session's open to its end, through deaths, outages and losses."""

import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire.session import State
from tests.integration.web import sse_client
from tests.support import commands, http_client, supervisors
from tests.support.supervisors import Supervisor
from tests.support.toolkit_services import Fault, ToolkitServices
from tests.support.waiting import wait_until

START_NS = 1_700_000_000_000_000_000


@pytest.fixture
def environment(services: ToolkitServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What supervisors, and commands of this process, are set to."""
    names = {
        "RTA_PUBLISH__SESSION_ADDRESS": services.address,
        "RTA_PUBLISH__CONFIG_ADDRESS": services.address,
        "RTA_PUBLISH__EVERY_S": "0.2",
        "RTA_PUBLISH__BREAKER_OPEN_S": "0.2",
        "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite"),
        "RTA_CATALOGUE__PROGRESS_FLUSH_S": "0.1",
        "RTA_NODE__LEASE_S": "1.5",
    }
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    return names


def write(handle: Any, first: int, count: int) -> None:
    """Rows of a second each."""
    rows = range(first, first + count)
    with rta_writers.BurstWriter(handle.options) as writer:
        times = pa.array([START_NS + row * 10**9 for row in rows])
        writer.write(pa.record_batch({"channel": [1] * count, "time": times, "value": [0.5] * count}))


def wait_for(services: ToolkitServices, identity: str, state: State) -> Any:
    """The session, once the service has it in a state."""
    wait_until(
        lambda: identity in services.sessions and services.sessions[identity].state == state.number,
        what=f"{identity} {state}",
        timeout_s=30,
    )
    return services.sessions[identity]


def worker_pid(supervisor: Supervisor) -> int:
    wait_until(lambda: supervisor.events("publisher_started"), what="the publisher")
    return int(str(supervisor.events("publisher_started")[-1]["pid"]))


def is_running(pid: int) -> bool:
    """Whether a process runs: one that ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_session_is_published_and_operators_see_it(
    url: str, services: ToolkitServices, environment: dict[str, str]
) -> None:
    """Opened, grown, closed, and what commands, doctor and metrics say about it meanwhile."""
    with supervisors.running(url, environment) as supervisor:
        handle = rta_writers.SessionClient(url).open("run-1", stream="rig", details={"n": 1}, group="g")
        stored = wait_for(services, "run-1", State.OPEN)
        assert (stored.group, stored.details[""]) == ("g", {"n": 1})
        write(handle, 0, 3)
        wait_until(lambda: services.sessions["run-1"].time_range == (START_NS, START_NS + 2 * 10**9), what="the range")
        handle.close()
        stored = wait_for(services, "run-1", State.CLOSED)
        assert stored.time_range == (START_NS, START_NS + 2 * 10**9)
        shown = wait_until(lambda: publication(url, told=True), what="the publication")
        assert shown is not None
        assert shown["sequence"] == services.sequences["run-1"]
        assert "published" in commands.run(url, "sessions", "show", "run-1").out
        refuse_and_retry(url, services)
        metrics = http_client.get(http_client.address(supervisor), "/metrics").body
        assert 'rta_publish_calls_total{outcome="described"}' in metrics
        assert 'rta_publish_calls_total{outcome="refused"} 1.0' in metrics
        assert "rta_publish_oldest_seconds " in metrics


def publication(url: str, *, told: bool) -> dict[str, Any] | None:
    """What `sessions show` says of the publication, once everything was delivered."""
    shown = commands.run(url, "sessions", "show", "run-1", "--json").json()["publication"]
    return shown if shown is not None and shown["is_pending"] is not told else None


def refuse_and_retry(url: str, services: ToolkitServices) -> None:
    """A session that the service refuses is named by `publish status` and `doctor`, until it is tried again."""
    services.fault = lambda _method, _request: Fault(grpc.StatusCode.INVALID_ARGUMENT, details="not like this")
    rta_writers.SessionClient(url).open("run-2", stream="rig", external_id="job-2")

    def status() -> Any:
        return commands.run(url, "publish", "status", "--json").json()

    wait_until(lambda: (status()["status"] or {}).get("refused") == 1, what="the refusal")
    assert status()["refused"] == [{"identity": "run-2", "reason": "INVALID_ARGUMENT: not like this"}]
    assert "not like this" in commands.run(url, "publish", "status").out
    assert "the service refuses 1" in commands.run(url, "doctor").out
    shown = commands.run(url, "sessions", "show", "run-2").out
    assert "not like this" in shown
    assert "not yet" in shown
    services.fault = lambda _method, _request: None
    for wrong in ((), ("--all", "--external-id", "job-2"), ("run-2", "--principal", "default")):
        assert commands.run(url, "publish", "retry", *wrong).code == 64
    commands.refused(commands.run(url, "publish", "retry", "--external-id", "run-2"), 66, "external id 'run-2'")
    assert commands.run(url, "publish", "retry", "--external-id", "job-2").out == "1 to be published again\n"
    wait_for(services, "run-2", State.OPEN)
    wait_until(lambda: status()["status"]["refused"] == 0, what="no refusal")
    assert commands.run(url, "publish", "retry", "--all").out == "whoever publishes tries again\n"


def test_death_of_the_publisher_and_of_its_supervisor(
    url: str, services: ToolkitServices, environment: dict[str, str]
) -> None:
    """A publisher that is killed is started again; one whose supervisor is killed ends, and another supervisor with the
    same catalogue goes on where both stopped."""
    with supervisors.running(url, environment) as first, supervisors.running(url, environment) as second:
        client = rta_writers.SessionClient(url, timeout_s=30)
        handle = client.open("run-1", stream="rig")
        wait_for(services, "run-1", State.OPEN)
        publishing, other = (first, second) if first.events("publisher_started") else (second, first)
        os.kill(worker_pid(publishing), signal.SIGKILL)
        wait_until(lambda: publishing.events("publisher_ended"), what="the end of the publisher")
        write(handle, 0, 2)
        wait_until(lambda: services.sessions["run-1"].time_range, what="the range")
        assert not other.events("publisher_started")
        pid = worker_pid(publishing)
        sequence = services.sequences["run-1"]
        publishing.kill()
        wait_until(lambda: not is_running(pid), what="the end of the publisher")
        handle.close()
        client.open("run-2", stream="rig")
        wait_for(services, "run-1", State.CLOSED)
        wait_for(services, "run-2", State.OPEN)
        assert services.sequences["run-1"] > sequence
        assert other.events("publisher_started")


def test_a_lost_redis_and_a_service_that_is_away(
    url: str, client: redis.Redis, services: ToolkitServices, environment: dict[str, str], tmp_path: Path
) -> None:
    """What happens while the service is away survives that Redis loses everything, and is delivered afterwards. The
    live page shows what the publisher logs meanwhile, and a reload of the level reaches its log."""
    level = tmp_path / "rta.log.level"
    level.write_text("info")
    more = {"CREDENTIALS_DIRECTORY": str(tmp_path), "RTA_PUBLISH__BREAKER_FAILURES": "1"}
    with supervisors.running(url, environment | more) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=30)
        handle = sessions.open("run-1", stream="rig")
        wait_for(services, "run-1", State.OPEN)
        services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE)
        level.write_text("debug")
        supervisor.process.send_signal(signal.SIGHUP)
        handle.close()
        sessions.open("run-2", stream="rig")
        with sse_client.connect(http_client.address(supervisor), "/ui/events") as page:
            page.until(lambda update: any(event["event"] == "publish_paused" for event in update.get("events", ())))
        assert len(supervisor.events("publish_paused")) == 1
        wait_until(lambda: publication(url, told=False), what="the note")
        before = dict(services.sequences)
        client.flushall()
        client.function_flush()
        supervisor.wait_for_event("redis_made_whole")
        supervisor.wait_for_event("publish_failed")
        services.fault = lambda _method, _request: None
        wait_for(services, "run-1", State.CLOSED)
        wait_for(services, "run-2", State.OPEN)
        assert services.sequences["run-1"] > before["run-1"]
