"""Requests of clients: a supervisor that is away is waited for, one that never was is not; many requests at a time."""

import logging
import threading
import time
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire import errors, session
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_writers.connection import retry
from rta_writers.control import requests
from rta_writers.options.write import WriteOptions
from tests.integration.writers import tasks
from tests.support import acl, supervisors
from tests.support.waiting import wait_until


def test_a_restart_of_the_supervisor_fails_no_job(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A close that finds no supervisor waits for the next one, and one line says so."""
    with supervisors.running(url) as first:
        run = rta_writers.SessionClient(url).open("run", stream="rig")
        first.stop()
    closed: list[rta_writers.ClosedSession] = []
    with caplog.at_level(logging.WARNING, logger="rta_writers"):
        closing = threading.Thread(target=lambda: closed.append(run.close()))
        closing.start()
        wait_until(lambda: caplog.records, what="the line that says that no supervisor runs")
        with supervisors.running(url):
            closing.join(20)
    [ended] = closed
    assert ended.state == "closed"
    [line] = [record.getMessage() for record in caplog.records]
    assert "No supervisor is running" in line


def test_a_supervisor_that_was_away_for_longer_than_its_pickup_time_still_serves(url: str, client: redis.Redis) -> None:
    """It takes the request for given up. A client that still waits sends it anew."""
    with supervisors.running(url) as first:
        run = rta_writers.SessionClient(url).open("run", stream="rig")
        first.stop()
    closed: list[rta_writers.ClosedSession] = []
    closing = threading.Thread(target=lambda: closed.append(run.close()))
    closing.start()
    wait_until(lambda: client.xlen("rtas:req:default"), what="the request")
    sent_s = time.monotonic()
    wait_until(lambda: time.monotonic() - sent_s > 1, what="the request to be too old")
    with supervisors.running(url, {"RTA_CONTROL__PICKUP_S": "1"}):
        closing.join(20)
        assert client.xlen("rtas:dlq") == 1, "the first one"
    assert [ended.state for ended in closed] == ["closed"]


def test_short_outages_of_redis_are_not_added_up(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request waits on after its connection was closed twice, with more time between than one outage may take."""
    monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.2)
    with supervisors.running(url) as first:
        run = rta_writers.SessionClient(url).open("run", stream="rig")
        first.stop()
    closed: list[rta_writers.ClosedSession] = []
    closing = threading.Thread(target=lambda: closed.append(run.close()))
    with caplog.at_level(logging.WARNING, logger="rta_writers"):
        closing.start()
        for outages in (1, 2):
            wait_until(lambda: blocked(client), what="the request to wait for its reply")
            closed_s = time.monotonic()
            client.client_kill_filter(_type="normal", skipme=True)
            wait_until(lambda: caplog.text.count("going on after") == outages, what="the request to go on")  # noqa: B023
            wait_until(lambda: time.monotonic() - closed_s > retry.OUTAGE_TIMEOUT_S)  # noqa: B023
        with supervisors.running(url):
            closing.join(20)
    assert [ended.state for ended in closed] == ["closed"]


def blocked(client: redis.Redis) -> list[Any]:
    """Connections that wait in a blocking command."""
    clients: Any = client.client_list()
    return [connection for connection in clients if "b" in connection["flags"]]


def test_a_supervisor_that_stays_away_is_named_at_the_deadline(url: str) -> None:
    with supervisors.running(url):
        pass
    with pytest.raises(errors.NoSupervisor, match="rtas:"):
        rta_writers.SessionClient(url, timeout_s=0.1).open("run", stream="rig")


def test_tasks_wait_as_long_as_the_client_of_their_group(url: str) -> None:
    """The sessions that rows name are opened in tasks, which have a client of their own."""
    with supervisors.running(url):
        group = rta_writers.sessions(rta_writers.SessionClient(url, timeout_s=0.1), stream="rig")
    with pytest.raises(errors.NoSupervisor):
        tasks.run(WriteOptions.parse(group.options), tasks.long(9, session=True))


def test_an_open_that_was_given_up_opens_nothing_later(url: str, client: redis.Redis) -> None:
    """The next supervisor finds it taken back: no session without a writer, and its identity can still be used."""
    with supervisors.running(url):
        pass
    with pytest.raises(errors.NoSupervisor):
        rta_writers.SessionClient(url, timeout_s=0.1).open("run", stream="rig")
    assert client.xlen("rtas:req:default") == 2, "the open and its cancellation"
    with supervisors.running(url):
        wait_until(lambda: not client.xlen("rtas:req:default"), what="both to be served")
        assert not client.exists("sessions:run")
        rta_writers.SessionClient(url).open("run", stream="rig").close()


def test_many_requests_at_a_time_keep_to_their_deadline(url: str) -> None:
    """Redis looks at the end of a blocking command ten times a second: not one after another for each of them."""
    with supervisors.running(url):
        pass
    sessions = rta_writers.SessionClient(url, timeout_s=1)
    opens = [
        control_pb2.CloseSession(request_id=messages.new_request_id(), identity=f"run-{number}", state="closed")
        for number in range(requests.PAGE_REQUESTS)
    ]
    started_s = time.monotonic()
    with pytest.raises(errors.NoSupervisor):
        sessions.ask_all(opens)
    assert time.monotonic() - started_s < 8


def test_where_no_supervisor_ever_was_that_is_told_at_once(url: str, client: redis.Redis) -> None:
    """So is a prefix under which none is registered, and nothing is sent."""
    with pytest.raises(errors.NoSupervisor, match="'rtas:'"):
        rta_writers.SessionClient(url).open("run", stream="rig")
    with supervisors.running(url), pytest.raises(errors.NoSupervisor, match="'other:'"):
        rta_writers.SessionClient(url, key_prefix="other:").open("run", stream="rig")
    assert not client.exists("other:req:default")


@pytest.mark.parametrize("is_running", [True, False])
def test_a_principal_that_nobody_serves_is_told_at_once(url: str, *, is_running: bool) -> None:
    """A typo is no reason to wait, whether a supervisor runs or is away."""
    with supervisors.running(url) as supervisor:
        if not is_running:
            supervisor.stop()
        with pytest.raises(errors.PrincipalNotServed, match=r"'defualt'.* serve default, operator"):
            rta_writers.SessionClient(url, principal="defualt").open("run", stream="rig")


def test_a_killed_supervisor_is_missed_within_seconds(url: str, client: redis.Redis) -> None:
    """Its registration lives for node.ttl_s."""
    with supervisors.running(url) as supervisor:
        nodes: Any = client.zrange("rtas:nodes", 0, -1)
        supervisor.kill()
    lifetime_s: Any = client.ttl(b"rtas:node:" + nodes[0])
    assert 0 < lifetime_s <= 15


def test_many_requests_at_a_time_keep_their_order(sessions: rta_writers.SessionClient) -> None:
    """More than a page of them: each has its own outcome, errors among them."""
    count = requests.PAGE_REQUESTS + 50
    opens = [
        control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=f"run-{number}",
            stream="rig",
            session_json=session.dump(session.build(f"run-{number if number % 10 else 'other'}")).decode(),
        )
        for number in range(count)
    ]
    outcomes = list(sessions.ask_all(opens))
    assert len(outcomes) == count
    for number, outcome in enumerate(outcomes):
        if number % 10:
            assert isinstance(outcome, control_pb2.SessionReply)
            assert outcome.identity == f"run-{number}"
        else:
            assert isinstance(outcome, errors.BadSessionJson)
    names = [f"run-{number}" for number in range(10)]
    ends = sessions.close_all(names)
    assert list(ends) == names
    assert isinstance(ends["run-0"], errors.UnknownSession)
    assert all(not isinstance(ends[name], errors.RtaError) for name in names[1:])


def test_another_template_of_session_keys_is_learnt(url: str, client: redis.Redis) -> None:
    """Waiting for a state and closing a group look at keys that the supervisor named."""
    with supervisors.running(url, {"RTA_KEYS__SESSION_TEMPLATE": "live/{identity}/rta"}):
        sessions = rta_writers.SessionClient(url)
        run = sessions.open("run", stream="rig")
        assert client.exists("live/run/rta")
        assert run.options["sessionTemplate"] == "live/{identity}/rta"
        sessions.wait("run", "open", timeout_s=5)
        with rta_writers.sessions(sessions, stream="rig") as group:
            assert group.options["sessionTemplate"] == "live/{identity}/rta"
            client.sadd(f"rtas:grp:{group.name}", "run")
            [heartbeat] = group._open_sessions()
            assert heartbeat.stream_session_id == run.target.stream_session_id
        assert group.ended["run"].state == "closed"


def test_an_acl_file_of_an_older_version_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that may only ask whether a supervisor is registered, and remove no reply, does everything."""
    older = [
        line.replace(" +exists +hmget)", " +exists)").replace(" +blmove +unlink)", " +blmove)") for line in acl.lines()
    ]
    assert older != acl.lines()
    monkeypatch.setattr(acl, "lines", lambda *_: older)
    with acl.running() as server:
        environment = {"RTA_CONTROL__PRINCIPALS": '["rig-4"]', "RTA_REDIS_PASSWORD": acl.PASSWORD}
        monkeypatch.setenv("RTA_REDIS_PASSWORD", acl.PASSWORD)
        with supervisors.running(f"unix://supervisor@{server.socket_path}", environment):
            sessions = rta_writers.SessionClient(f"unix://{acl.WRITER}@{server.socket_path}", principal="rig-4")
            large = {"x": "y" * 300_000}
            assert sessions.open("run", stream="rig-4.a", details=large).close().state == "closed"
            shown = sessions.get("run").json
            assert shown is not None
            assert shown["details"] == large
            assert [session.identity for session in sessions.list()] == ["run"]
