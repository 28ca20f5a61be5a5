"""One principal does what it can to keep others waiting: floods of requests, closes that wait, ids from the future."""

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.cli import entry as cli_entry
from rta_wire import entry_ids, errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import samples, supervisors
from tests.support.control import document, fields, progress, write
from tests.support.waiting import wait_until

TWO = {
    "RTA_CONTROL__PRINCIPALS": '["alice", "bob"]',
    "RTA_SESSION__CLOSE_GRACE_S": "60",
    "RTA_SESSION__WRITER_SILENT_S": "600",
}
FUTURE_MS = 3_000_000_000_000
ALICE, BOB = "rtas:req:alice", "rtas:req:bob"


@pytest.fixture
def daemon(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url, TWO) as running:
        yield running


def append(client: redis.Redis, key: str, requests: Sequence[messages.Request], *, first_id: int | None = None) -> None:
    """Append requests in one go, as fast as a hostile client would. `first_id`: time of the first entry id."""
    with client.pipeline(transaction=False) as pipe:
        for number, request in enumerate(requests):
            entry_id = "*" if first_id is None else entry_ids.format_id(first_id + number)
            pipe.xadd(key, {"m": messages.pack(request)}, id=entry_id)
        pipe.execute()


def open_request(name: str, request_id: str = "") -> control_pb2.OpenSession:
    text = f'{{"identity":"{name}","state":"open","timestamp":"2026-01-01T00:00:00Z","identifier":"x"}}'
    return control_pb2.OpenSession(
        request_id=request_id or f"open-{name}", identity=name, stream="rig", session_json=text
    )


def close_request(name: str, request_id: str, *, bursts: int = 0) -> control_pb2.CloseSession:
    request = control_pb2.CloseSession(request_id=request_id, identity=name, state="closed")
    request.expected.bursts = bursts
    return request


def replies(client: redis.Redis, request_ids: Sequence[str]) -> list[control_pb2.SessionReply | errors.RtaError]:
    """The replies to requests, once all are there."""

    def read() -> list[Any]:
        with client.pipeline(transaction=False) as pipe:
            for request_id in request_ids:
                pipe.lrange(f"rtas:reply:{request_id}", 0, -1)
            found = pipe.execute()
        return found if all(found) else []

    outcomes: list[control_pb2.SessionReply | errors.RtaError] = []
    for [raw] in wait_until(read, timeout_s=30, what="all replies"):
        try:
            outcomes.append(messages.unpack_reply(raw))
        except errors.RtaError as error:
            outcomes.append(error)
    return outcomes


def unread(client: redis.Redis, key: str) -> int:
    return int(str(client.xlen(key)))


def test_a_flood_of_opens_holds_up_no_other_principal(
    url: str, client: redis.Redis, daemon: supervisors.Supervisor
) -> None:
    """Two thousand opens wait when another principal asks: it is served long before they are."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    append(client, ALICE, [open_request(f"flood-{n}") for n in range(2000)])
    append(client, BOB, [open_request("one"), close_request("one", "close-one")])
    os.kill(daemon.process.pid, signal.SIGCONT)
    replies(client, ["open-one", "close-one"])
    assert unread(client, ALICE) > 1000
    session = rta_writers.SessionClient(url, principal="bob").session("two", stream="rig")
    session.update(group="g")
    session.close()
    assert unread(client, ALICE) > 0
    wait_until(lambda: unread(client, ALICE) == 0, timeout_s=60, what="the flood being served")
    assert document(client, "flood-1999")["state"] == "open"
    assert {event["principal"] for event in daemon.events("limit_reached")} == {"alice"}


def test_a_flood_about_one_session_holds_up_no_other_session(
    client: redis.Redis, daemon: supervisors.Supervisor
) -> None:
    """Sessions of one principal take turns: on a plain install everybody is the same principal."""
    append(client, ALICE, [open_request("flooded")])
    replies(client, ["open-flooded"])
    os.kill(daemon.process.pid, signal.SIGSTOP)
    updates = [
        control_pb2.UpdateSession(request_id=f"u{n}", identity="flooded", properties_json=f'{{"group":"{n}"}}')
        for n in range(500)
    ]
    append(client, ALICE, [*updates, open_request("other")])
    os.kill(daemon.process.pid, signal.SIGCONT)
    replies(client, ["open-other"])
    assert not client.exists("rtas:reply:u499")
    replies(client, ["u499"])
    assert document(client, "flooded")["group"] == "499"


def test_requests_of_one_session_are_served_in_order(client: redis.Redis, daemon: supervisors.Supervisor) -> None:
    """Open, update and close of many sessions, sent at once: each session ends as if they had been sent one by one."""
    names = [f"run-{n}" for n in range(40)]
    requests: list[messages.Request] = []
    for name in names:
        update = control_pb2.UpdateSession(
            request_id=f"u-{name}", identity=name, properties_json=f'{{"group":"{name}"}}'
        )
        requests += [
            open_request(name),
            update,
            close_request(name, f"close-{name}"),
            open_request(name, f"late-{name}"),
        ]
    os.kill(daemon.process.pid, signal.SIGSTOP)
    append(client, ALICE, requests)
    os.kill(daemon.process.pid, signal.SIGCONT)
    assert {type(reply) for reply in replies(client, [f"late-{name}" for name in names])} == {errors.SessionClosed}
    for name in names:
        assert (document(client, name)["state"], document(client, name)["group"]) == ("closed", name)
        number = int(fields(client, name)["streamSessionId"])
        assert samples.kinds(client, "rig", number) == ["session_json"] * 3


def test_closes_that_wait_with_ids_from_the_future(url: str, client: redis.Redis) -> None:
    """They wait as long as others and not until that future; beyond the limit they are refused; nobody else notices,
    also after kill -9; the log and the doctor name the principal."""
    settings = {**TWO, "RTA_LIMITS__WAITING_REQUESTS": "50"}
    bob = rta_writers.SessionClient(url, principal="bob", timeout_s=20)
    names = [f"close-{n}" for n in range(300)]
    with supervisors.running(url, settings) as first:
        append(client, ALICE, [open_request("hostage")])
        replies(client, ["open-hostage"])
        append(client, ALICE, [close_request("hostage", name, bursts=9) for name in names], first_id=FUTURE_MS)
        refused = replies(client, names[50:])
        assert {type(error) for error in refused} == {errors.LimitReached}
        assert "limits.waiting_requests = 50" in str(refused[0])
        bob.session("one", stream="rig").close()
        assert first.wait_for_event("ids_from_future")["principal"] == "alice"
        assert first.events("limit_reached")[0]["principal"] == "alice"
        first.kill()
    with supervisors.running(url, {**settings, "RTA_SESSION__CLOSE_GRACE_S": "1"}) as second:
        bob.session("two", stream="rig").close()
        operator = rta_writers.SessionClient(url, principal="operator", timeout_s=20)
        append(client, ALICE, [open_request("other")])
        replies(client, ["open-other"])
        assert operator.close("other", state="abandoned").state == "abandoned"
        ended = replies(client, names[:50])
        assert {reply.state for reply in ended} == {"truncated"}  # type: ignore[union-attr]
        wait_until(lambda: unread(client, ALICE) == 0, what="an empty control stream")
        assert not second.events("limit_reached")


def test_a_close_that_waits_costs_nothing_and_is_woken_at_once(
    url: str,
    client: redis.Redis,
    daemon: supervisors.Supervisor,  # noqa: ARG001 - it has to run
) -> None:
    """Forty closes of one session and forty of others wait: nothing is read of them again and again. The report that
    they wait for wakes those that it completes, and a cancellation the one that it names."""
    alice = rta_writers.SessionClient(url, principal="alice", timeout_s=20)
    shared, *others = [alice.session(f"run-{n}", stream="rig") for n in range(41)]
    waiting = [f"shared-{n}" for n in range(40)]
    append(client, ALICE, [close_request("run-0", name, bursts=n // 20 + 1) for n, name in enumerate(waiting)])
    append(client, ALICE, [close_request(other.identity, f"c-{other.identity}", bursts=1) for other in others])
    wait_until(lambda: client.xpending(ALICE, "supervisors")["pending"] == 80, what="all being read")
    calls = full_reads(client)
    alice.cancel(waiting[39])
    assert [type(error) for error in replies(client, waiting[39:])] == [errors.RequestCancelled]
    report(client, shared, bursts=1)
    ended = replies(client, waiting[:20])
    assert [reply.state for reply in ended] == ["closed"] * 20  # type: ignore[union-attr]
    # The session is closed: those that wait for more have nothing to wait for.
    assert [reply.missing.bursts for reply in replies(client, waiting[20:39])] == [1] * 19  # type: ignore[union-attr]
    assert full_reads(client) - calls < 250, "sessions whose closes wait were read again and again"
    for other in others:
        report(client, other, bursts=1)
    replies(client, [f"c-{other.identity}" for other in others])
    wait_until(lambda: unread(client, ALICE) == 0, what="an empty control stream")


def full_reads(client: redis.Redis) -> int:
    stats: Any = client.info("commandstats")
    return int(stats["cmdstat_hgetall"]["calls"])


def report(client: redis.Redis, session: rta_writers.Session, *, bursts: int) -> None:
    totals = Totals(bursts, 1, 1, 1, samples.START_NS, samples.START_NS)
    client.xadd("rtas:ctl:alice", {"m": messages.pack(progress(session, "u", totals))})


def test_what_another_supervisor_folds_wakes_a_close(url: str, client: redis.Redis) -> None:
    """Two supervisors: one of them has the close, and either of them the report. Marks count without a report too."""
    with supervisors.running(url, TWO), supervisors.running(url, TWO):
        alice = rta_writers.SessionClient(url, principal="alice", timeout_s=20)
        sessions = [alice.session(f"run-{n}", stream="rig") for n in range(10)]
        append(client, ALICE, [close_request(each.identity, f"c-{each.identity}", bursts=1) for each in sessions])
        wait_until(lambda: client.xpending(ALICE, "supervisors")["pending"] == 10, what="all being read")
        for session in sessions[:9]:
            report(client, session, bursts=1)
        write(client, sessions[9], 1, report=False)
        ended = replies(client, [f"c-{each.identity}" for each in sessions])
        assert {reply.state for reply in ended} == {"closed"}  # type: ignore[union-attr]


def test_twenty_cancellations_are_one_line_in_the_log(client: redis.Redis, daemon: supervisors.Supervisor) -> None:
    """They are served together, and each has its reply."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    cancellations = [control_pb2.CancelRequest(request_id=f"c{n}", target_request_id=f"never-{n}") for n in range(20)]
    append(client, ALICE, cancellations)
    os.kill(daemon.process.pid, signal.SIGCONT)
    outcomes = replies(client, [f"c{n}" for n in range(20)])
    assert {type(reply) for reply in outcomes} == {control_pb2.SessionReply}
    wait_until(lambda: unread(client, ALICE) == 0, what="an empty control stream")
    lines = daemon.events("request_cancelled")
    assert len(lines) <= 2
    assert sum(int(str(line["count"])) for line in lines) == 20


def test_open_sessions_are_limited_for_each_principal(url: str, client: redis.Redis) -> None:
    """The one beyond is refused with the limit, also after a restart, until another one is closed."""
    settings = {**TWO, "RTA_LIMITS__OPEN_SESSIONS": "3", "RTA_METRICS__SURVEY_S": "0.1"}
    alice = rta_writers.SessionClient(url, principal="alice", timeout_s=20)
    with supervisors.running(url, settings) as first:
        for n in range(3):
            alice.open(f"run-{n}", stream="rig")
        with pytest.raises(errors.LimitReached, match="has 3 open sessions"):
            alice.open("run-3", stream="rig")
        alice.open("run-2", stream="rig")
        rta_writers.SessionClient(url, principal="bob").open("other", stream="rig")
        assert first.events("limit_reached")[0]["limit"] == "limits.open_sessions"
    with supervisors.running(url, settings):

        def is_refused() -> bool:
            try:
                alice.open("run-3", stream="rig").close()
            except errors.LimitReached:
                return True
            return False

        client.delete("sessions:run-3", "rtas:st:{sessions:run-3}")
        wait_until(is_refused, what="the sessions being counted")
        alice.close("run-0")
        alice.open("run-4", stream="rig")


def test_a_control_stream_whose_ids_are_used_up(
    url: str, client: redis.Redis, daemon: supervisors.Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request with the highest id is served and removed; the doctor names the key and what to do, which helps."""
    client.xadd(ALICE, {"m": messages.pack(open_request("last"))}, id=entry_ids.MAX)
    replies(client, ["open-last"])
    wait_until(lambda: unread(client, ALICE) == 0, what="an empty control stream")
    with pytest.raises(redis.ResponseError):
        client.xadd(ALICE, {"m": "x"})
    environment = {"RTA_CONTROL__PRINCIPALS": TWO["RTA_CONTROL__PRINCIPALS"]}
    os.environ.update(environment)
    try:
        cli_entry.main(["doctor", "--redis-url", url])
    finally:
        for name in environment:
            del os.environ[name]
    text = " ".join(capsys.readouterr().out.split())
    assert f"nothing can be appended to {ALICE}" in text
    assert f"redis-cli UNLINK {ALICE}" in text
    assert "-18446" not in text
    client.unlink(ALICE)
    daemon.wait_for_event("redis_lost_data")
    rta_writers.SessionClient(url, principal="alice", timeout_s=20).session("next", stream="rig").close()
