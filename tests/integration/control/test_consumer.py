"""Consumers of control streams under trouble: poison, late messages, too many that wait, evicted ones, an outage."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

import rta_writers
from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.embedded import server
from rta_wire import errors, keys
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from tests.support import samples, supervisors
from tests.support.control import dead_letters, document, fields, folded, progress, write
from tests.support.waiting import wait_until


def answer_to(client: redis.Redis, request_id: str) -> bytes:
    replies: Any = wait_until(lambda: client.lrange(f"rtas:reply:{request_id}", 0, -1), what="the reply")
    raw: bytes = replies[0]
    return raw


def test_a_poisonous_message_does_not_stop_the_others(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A key of the wrong type makes one request impossible: it is answered and kept, and its neighbours are served."""
    client.set("sessions:poison", "not a hash", ex=60)
    raw = [
        control_pb2.OpenSession(
            request_id=f"r-{name}",
            identity=name,
            stream="rig",
            session_json=f'{{"identity":"{name}","state":"open","timestamp":"2026-01-01T00:00:00Z","identifier":"x"}}',
        )
        for name in ("a", "poison", "b")
    ]
    with client.pipeline(transaction=True) as pipe:
        for request in raw:
            pipe.xadd("rtas:req:default", {"m": messages.pack(request)})
        pipe.execute()
    assert messages.unpack_reply(answer_to(client, "r-a")).state == "open"
    assert messages.unpack_reply(answer_to(client, "r-b")).state == "open"
    with pytest.raises(errors.PoisonousMessage, match="WRONGTYPE"):
        messages.unpack_reply(answer_to(client, "r-poison"))
    assert [entry[b"code"] for entry in dead_letters(client)] == [b"PoisonousMessage"]
    for name in ("a", "b"):
        sessions.close(name)


def test_a_request_that_nobody_picked_up_in_time_is_refused(url: str, client: redis.Redis) -> None:
    """Whoever asked is gone: serving it now would open a session that nobody writes."""
    late = control_pb2.OpenSession(request_id="late", identity="run-1", stream="rig", session_json="{}")
    now: Any = client.time()
    client.execute_command("XADD", "rtas:req:default", f"{(now[0] - 300) * 1000}-0", "m", messages.pack(late))
    with supervisors.running(url), pytest.raises(errors.RequestExpired, match=r"30\d s"):
        messages.unpack_reply(answer_to(client, "late"))
    assert fields(client, "run-1") == {}
    assert len(dead_letters(client)) == 1


def test_a_request_that_waits_too_long_goes_to_the_dead_letters(url: str, client: redis.Redis) -> None:
    """One that a supervisor took and left behind, and that nobody served for so long, is given up."""
    waiting = control_pb2.OpenSession(request_id="waiting", identity="run-1", stream="rig", session_json="{}")
    now: Any = client.time()
    client.xgroup_create("rtas:req:default", keys.CONTROL_GROUP, "0", mkstream=True)
    client.execute_command("XADD", "rtas:req:default", f"{(now[0] - 700) * 1000}-0", "m", messages.pack(waiting))
    client.xreadgroup(keys.CONTROL_GROUP, "dead", {"rtas:req:default": ">"})
    with supervisors.running(url, {"RTA_CONTROL__RETRY_S": "0.1"}):
        with pytest.raises(errors.RequestExpired, match=r"70\d s") as caught:
            messages.unpack_reply(answer_to(client, "waiting"))
        assert caught.value.retriable
        wait_until(lambda: len(dead_letters(client)) == 1, what="a dead letter")
    assert fields(client, "run-1") == {}


def test_a_flood_of_reports_does_not_hold_up_a_request(
    client: redis.Redis, sessions: rta_writers.SessionClient, supervisor: supervisors.Supervisor
) -> None:
    """Two hundred thousand reports wait, and an open is served before they are done."""
    first = sessions.session("run-1", stream="rig")
    raw = messages.pack(progress(first, "u", Totals(1, 1, 1, 1, 5, 5)))
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    for _ in range(20):
        with client.pipeline(transaction=False) as pipe:
            for _ in range(10_000):
                pipe.xadd("rtas:ctl:default", {"m": raw})
            pipe.execute()
    os.kill(supervisor.process.pid, signal.SIGCONT)
    second = sessions.session("run-2", stream="rig")
    assert int(str(client.xlen("rtas:ctl:default"))) > 0, "the flood was over before the open came"
    first.close()
    second.close()


def test_evicted_messages_are_counted_and_made_good(url: str, client: redis.Redis) -> None:
    """Reports that were trimmed away unread are reported as a gap, and the marks tell what they would have told."""
    with supervisors.running(url) as first:
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        os.kill(first.process.pid, signal.SIGSTOP)
        for n in range(7):
            write(client, session, 1, unit=f"u{n}")
        # Redis has handed the first one to the frozen supervisor, which waited for it.
        client.xtrim("rtas:ctl:default", maxlen=2, approximate=False)
        os.kill(first.process.pid, signal.SIGCONT)
        wait_until(lambda: folded(client, "run-1").samples == 7, what="all seven samples")
        assert sum(int(str(event["count"])) for event in first.events("messages_evicted")) == 4
        assert session.close().totals.samples == 7


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_evicted_message_is_counted_once(raw: redis.Redis, data: st.DataObject) -> None:
    """However reading, settling and eviction interleave: what was added is settled, stands there, or was reported."""
    raw.execute_command("FLUSHALL")
    names, key = keys.Keys(), "rtas:ctl:x"
    raw.execute_command(*control_functions.create_group(names, key))
    added = acknowledged = reported = 0
    unacknowledged: list[str] = []
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(["add", "add", "read", "settle", "evict", "look"]))
        if step == "add":
            raw.execute_command("XADD", key, "*", "m", "x")
            added += 1
        elif step == "read":
            reply = raw.execute_command("XREADGROUP", "GROUP", "supervisors", "c", "COUNT", 2, "STREAMS", key, ">")
            unacknowledged += [entry[0].decode() for entry in (reply[0][1] if reply else [])]
        elif step == "settle" and unacknowledged:
            raw.execute_command(*control_functions.acknowledge(names, key, [unacknowledged[0]]))
            unacknowledged, acknowledged = unacknowledged[1:], acknowledged + 1
        elif step == "evict":
            raw.execute_command("XTRIM", key, "MAXLEN", data.draw(st.integers(0, 5)))
        elif step == "look":
            reported += raw.execute_command(*control_functions.count_evicted(names, key))
    if unacknowledged:
        raw.execute_command(*control_functions.acknowledge(names, key, unacknowledged))
    reported += raw.execute_command(*control_functions.count_evicted(names, key))
    assert added == acknowledged + len(unacknowledged) + reported + raw.execute_command("XLEN", key)


@pytest.fixture
def durable() -> Iterator[server.EmbeddedServer]:
    options = {"appendonly": "yes", "appendfsync": "always"}
    with server.running(port=server.free_port(), options=options) as running:
        yield running


def test_an_outage_is_ridden_out(durable: server.EmbeddedServer) -> None:
    """Redis is killed and comes back with its data: requests and reports in flight are served once, nothing is lost."""
    with supervisors.running(durable.url) as supervisor:
        sessions = rta_writers.SessionClient(durable.url)
        session = sessions.session("run-1", stream="rig")
        with redis_client.connect(durable.url) as client:
            write(client, session, 3)
        durable.kill()
        supervisor.wait_for_event("redis_unavailable")
        opened: list[rta_writers.Session] = []
        opener = threading.Thread(target=lambda: opened.append(sessions.session("run-2", stream="rig")))
        opener.start()
        durable.start()
        opener.join(30)
        with redis_client.connect(durable.url) as client:
            write(client, session, 5)
            assert session.close().totals.samples == 5
            assert opened[0].close().state == "closed"
            assert [value for _, _, value in samples.rows(client, "rig")] == [0, 1, 2, 3, 4]
            order = samples.kinds(client, "rig", session.target.stream_session_id)
            assert (order[0], order[-1], order.count("session_json")) == ("session_json", "session_json", 2)
            assert document(client, "run-1")["state"] == "closed"
        assert supervisor.process.poll() is None


def test_fuzzed_control_streams_do_not_stop_the_daemon(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Mutated messages in both control streams end as effects, errors or dead letters, and the next open is served."""
    program = (
        "import random, sys, redis\n"
        "from rta_wire.control import messages\nfrom rta_wire.pb import control_pb2\n"
        "r = random.Random(7); c = redis.Redis.from_url(sys.argv[1])\n"
        "good = [messages.pack(m) for m in (\n"
        "  control_pb2.OpenSession(request_id='r', identity='i', stream='s', session_json='{}'),\n"
        "  control_pb2.CloseSession(request_id='q', identity='i', state='closed'),\n"
        "  control_pb2.Progress(identity='i', stream_session_id=1, unit='u'),\n"
        "  control_pb2.CancelRequest(request_id='c', target_request_id='r'),\n"
        "  control_pb2.UpdateSession(request_id='u', identity='i', properties_json='{}'))]\n"
        "p = c.pipeline(transaction=False)\n"
        "for n in range(4000):\n"
        "  raw = bytearray(r.choice(good))\n"
        "  for _ in range(r.randrange(6)): raw[r.randrange(len(raw))] = r.randrange(256)\n"
        "  p.xadd(r.choice(('rtas:req:default', 'rtas:ctl:default')), {'m': bytes(raw[:r.randrange(1, 200)])})\n"
        "p.xadd('rtas:req:default', {'m': b'x' * (10 << 20)})\n"
        "p.xadd('rtas:ctl:default', {'m': b'\\x0a' * (1 << 20)})\n"
        "p.execute()\n"
    )
    subprocess.run([sys.executable, "-c", program, sessions.url], check=True)
    for key in ("rtas:req:default", "rtas:ctl:default"):
        wait_until(lambda key=key: client.xlen(key) == 0, timeout_s=60, what=f"an empty {key}")  # type: ignore[misc]
    assert dead_letters(client)
    sessions.session("run-1", stream="rig").close()
    assert document(client, "run-1")["state"] == "closed"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_flood_of_reports_is_folded_whole(url: str, client: redis.Redis, how: signal.Signals) -> None:
    """Many batches are gathered and read ahead; a supervisor that ends in the middle of it loses none of them."""
    small = {"RTA_CONTROL__BATCH": "10", "RTA_CONTROL__RETRY_S": "0.5"}
    with supervisors.running(url, small) as first:
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        os.kill(first.process.pid, signal.SIGSTOP)
        with client.pipeline(transaction=False) as pipe:
            for n in range(3000):
                report = progress(session, f"u{n % 40}", Totals(n, n, n, n, samples.START_NS, samples.START_NS + n))
                pipe.xadd("rtas:ctl:default", {"m": messages.pack(report)})
            pipe.execute()
        os.kill(first.process.pid, signal.SIGCONT)
        wait_until(lambda: client.xlen("rtas:ctl:default") < 2900, what="some reports being folded")
        os.kill(first.process.pid, how)
        first.process.wait()
        unfolded = client.xlen("rtas:ctl:default")
        with supervisors.running(url, small):
            wait_until(lambda: client.xlen("rtas:ctl:default") == 0, what="every report being folded")
            assert folded(client, "run-1").samples == sum(range(2960, 3000))
            pending: Any = client.xpending("rtas:ctl:default", keys.CONTROL_GROUP)
            assert pending["pending"] == 0
            assert dead_letters(client) == []
    assert unfolded, "it ended in the middle"
