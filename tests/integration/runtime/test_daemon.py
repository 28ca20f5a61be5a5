"""The supervisor as a process: the life of a session in Redis, and the faults around it."""

import functools
import os
import signal
import threading
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire import errors, keys
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import samples, supervisors
from tests.support.control import dead_letters, document, fields, send, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def test_the_life_of_a_session(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Open, write, close: hash, set, first and last entry, time range and lifetime are as the protocol wants them."""
    with sessions.session("run-1", stream="rig", identifier="Run 1", details={"Rig": 4}) as session:
        opened = fields(client, "run-1")
        assert opened.keys() == {"streamSessionId", "streamName", "streamPosition", "lastUpdated", "json"}
        assert (opened["streamName"], opened["streamPosition"]) == ("rig", "0-0")
        assert document(client, "run-1")["state"] == "open"
        assert client.smembers("streams") == {b"rig"}
        assert 0 < int(str(client.ttl("sessions:run-1"))) <= 7 * 24 * 3600
        write(client, session, 3)
        wait_until(lambda: fields(client, "run-1").get("tEnd") == str(samples.START_NS + 2), what="the time range")
    closed = document(client, "run-1")
    assert closed["state"] == "closed"
    assert closed["details"] == {"Rig": 4}
    assert closed["timeRange"] == {"startTime": samples.START_NS, "endTime": samples.START_NS + 2}
    wait_until(lambda: 0 < int(str(client.ttl("sessions:run-1"))) <= 24 * 3600, what="the lifetime of a closed session")
    order = samples.kinds(client, "rig", session.target.stream_session_id)
    assert order == ["session_json", *["timestamped_data"] * 3, "time_range", "session_json"]
    last = samples.messages(client, "rig")[-1][1].data[0].session_json
    assert last == fields(client, "run-1")["json"]
    assert session.ended is not None
    assert session.ended.totals.samples == 3


def test_opening_again_gives_the_same_session(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The same identity and stream is one session with one first entry, however many clients open it at once."""
    opened: list[rta_writers.Session] = []
    threads = [
        threading.Thread(target=lambda: opened.append(sessions.session("run-1", stream="rig"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({session.target.stream_session_id for session in opened}) == 1
    assert samples.kinds(client, "rig", opened[0].target.stream_session_id) == ["session_json"]
    for session in opened:
        session.close()


def test_a_request_that_comes_twice_gets_one_answer(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A request id stands for one piece of work and one reply, which can be read more than once."""
    request = control_pb2.CloseSession(request_id="again", identity="run-1", state="closed")
    sessions.session("run-1", stream="rig")
    first = sessions.ask(request)
    assert sessions.ask(request) == first
    assert client.llen("rtas:reply:again") == 1


def test_ids_differ_and_positions_point_before_the_first_entry(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Sessions that share a stream have ids of their own, and a reader who starts at the position misses nothing."""
    positions = []
    for name in ("a", "b", "c"):
        with sessions.session(name, stream="rig") as session:
            write(client, session, 2)
        positions.append((fields(client, name)["streamPosition"], session.target.stream_session_id))
    assert len({number for _, number in positions}) == 3
    for position, number in positions:
        entries: Any = client.xread({"stream:rig": position})
        flat = entries[b"stream:rig"] if isinstance(entries, dict) else entries[0][1]
        entry = (flat[0] if isinstance(flat[0][0], bytes) else flat[0][0])[1]
        assert int(entry[b"id"]) == number


def test_conflicts_are_named(url: str, client: redis.Redis, supervisor: Supervisor) -> None:
    """Another stream is refused by name, and a session that is not there too."""
    sessions = rta_writers.SessionClient(url)
    sessions.session("run-1", stream="rig")
    with pytest.raises(errors.SessionConflict, match="'rig', not 'other'"):
        sessions.session("run-1", stream="other")
    with pytest.raises(errors.UnknownSession, match="nobody"):
        sessions.close("nobody")
    assert client.exists("stream:other") == 0
    assert supervisor.process.poll() is None


def test_principals_do_not_touch_each_others_sessions(url: str) -> None:
    """The stream that a message came from says who sent it."""
    with supervisors.running(url, {"RTA_CONTROL__PRINCIPALS": '["one", "two"]'}):
        first = rta_writers.SessionClient(url, principal="one")
        second = rta_writers.SessionClient(url, principal="two")
        session = first.session("run-1", stream="rig")
        with pytest.raises(errors.SessionConflict, match="principal"):
            second.session("run-1", stream="rig")
        with pytest.raises(errors.SessionConflict, match="principal"):
            second.close("run-1")
        assert session.close().state == "closed"


def test_junk_goes_to_the_dead_letters(
    client: redis.Redis, sessions: rta_writers.SessionClient, supervisor: Supervisor
) -> None:
    """Junk bytes, a wrong control stream and a report for nobody are kept with their reason, and the daemon goes on."""
    client.xadd("rtas:req:default", {"m": b"\xff\xff"})
    client.xadd("rtas:ctl:default", {"x": b"no message"})
    send(client, control_pb2.Heartbeat(identity="run-1", stream_session_id=1), kind="req")
    send(client, control_pb2.OpenSession(request_id="r", identity="i", stream="s"))
    send(client, control_pb2.Progress(identity="nobody", stream_session_id=1, unit="u"))
    wait_until(lambda: len(dead_letters(client)) >= 5, what="five dead letters")
    codes = sorted(entry[b"code"] for entry in dead_letters(client))
    assert codes == [b"BadMessage"] * 4 + [b"UnknownSession"]
    assert sessions.session("run-1", stream="rig").close().state == "closed"
    assert supervisor.process.poll() is None


def test_a_bad_request_gets_its_error(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A request whose content is wrong is answered, not buried."""
    raw = messages.pack(control_pb2.OpenSession(request_id="bad", identity="i", stream="s", session_json="{}"))
    client.xadd("rtas:req:default", {"m": raw})
    answer: Any = wait_until(lambda: client.lrange("rtas:reply:bad", 0, -1), what="the reply")
    with pytest.raises(errors.BadSessionJson):
        messages.unpack_reply(answer[0])
    assert dead_letters(client) == []
    with pytest.raises(errors.BadSessionJson, match="quality"):
        sessions.session("x", stream="rig", quality=2.0)


def is_empty(client: redis.Redis, key: str) -> bool:
    return client.xlen(key) == 0


def test_handled_messages_leave_the_control_streams(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Acknowledged and removed: the streams do not grow."""
    with sessions.session("run-1", stream="rig") as session:
        write(client, session, 1)
    for key in ("rtas:req:default", "rtas:ctl:default"):
        wait_until(functools.partial(is_empty, client, key), what=f"an empty {key}")
        pending: Any = client.xpending(key, keys.CONTROL_GROUP)
        assert pending["pending"] == 0


def test_idle_sessions_stay_alive(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Without any data `lastUpdated` moves and the lifetime is renewed."""
    with sessions.session("run-1", stream="rig"):
        before = int(fields(client, "run-1")["lastUpdated"])
        client.expire("sessions:run-1", 100)
        wait_until(lambda: int(fields(client, "run-1")["lastUpdated"]) > before, what="a refresh")
        wait_until(lambda: int(str(client.ttl("sessions:run-1"))) > 100, what="a longer lifetime")


def test_sigterm_drains_and_ends_well(url: str, client: redis.Redis) -> None:
    """What was sent before the signal is done, the registration is gone, the exit code is 0."""
    with supervisors.running(url, {"RTA_SESSION__REFRESH_MS": "5000"}) as supervisor:
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        write(client, session, 1)
        wait_until(lambda: client.xlen("rtas:ctl:default") == 0, what="the report being folded")
        assert supervisor.stop() == 0, supervisor.log_path.read_text()
        assert fields(client, "run-1")["tEnd"] == str(samples.START_NS)
        assert client.zcard("rtas:nodes") == 0
        assert supervisor.events("supervisor_stopped")
        with pytest.raises(errors.NoSupervisor):
            rta_writers.SessionClient(url, timeout_s=0.2).session("run-2", stream="rig")


def test_another_supervisor_finishes_what_a_killed_one_began(url: str, client: redis.Redis) -> None:
    """Kill -9 between reading and answering: the next one claims the message and the client gets its reply."""
    with supervisors.running(url) as first:
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        os.kill(first.process.pid, signal.SIGSTOP)
        request = control_pb2.CloseSession(request_id="close", identity="run-1", state="closed")
        send(client, request, kind="req")
        # The frozen one has read the message as far as the group is concerned.
        node: Any = client.zrange("rtas:nodes", 0, 0)
        client.xreadgroup(keys.CONTROL_GROUP, node[0], {"rtas:req:default": ">"})
        first.kill()
        with supervisors.running(url) as second:
            answer: Any = wait_until(lambda: client.lrange("rtas:reply:close", 0, -1), what="the reply")
            assert messages.unpack_reply(answer[0]).state == "closed"
            assert second.events("messages_claimed")
    assert samples.kinds(client, "rig", session.target.stream_session_id) == ["session_json", "session_json"]
    assert document(client, "run-1")["state"] == "closed"
