"""Webhooks against a real HTTP server that takes, refuses, hangs and comes back."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire.pb import control_pb2
from tests.integration.webhooks.receiver import SECRET, Receiver, receiving
from tests.support import supervisors
from tests.support.control import dead_letters, document, send, write
from tests.support.waiting import wait_until

GUIDE = Path(__file__).parents[3] / "docs" / "webhooks.md"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def told(*receivers: Receiver, **changes: str) -> dict[str, str]:
    """Settings that name the receivers, with short pauses."""
    quick = {"TIMEOUT_S": "0.5", "FIRST_RETRY_S": "0.02", "BREAKER_OPEN_S": "0.05", "BREAKER_FAILURES": "1000"}
    found = {f"RTA_WEBHOOKS__{name}": value for name, value in (quick | changes).items()}
    for number, one in enumerate(receivers):
        found[f"RTA_WEBHOOKS__TO__R{number}__URL"] = one.url
        found[f"RTA_WEBHOOKS__TO__R{number}__SECRET"] = SECRET
    return found


@contextlib.contextmanager
def posting(url: str, environment: dict[str, str]) -> Iterator[supervisors.Supervisor]:
    """A supervisor that is killed at the end: how it stops is not what these tests are about."""
    with supervisors.running(url, environment) as supervisor:
        try:
            yield supervisor
        finally:
            supervisor.kill()


def waiting(client: redis.Redis, target: str = "r0") -> int:
    return int(str(client.zcard(f"rtas:hook:{{{target}}}:due")))


def test_every_change_of_state_is_posted_and_signed(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Open, pause, resume, close: four posts with totals, each signed. Who asked for one state hears of no other."""
    with receiving() as choosy, posting(url, told(receiver, choosy) | {"RTA_WEBHOOKS__TO__R1__STATES": '["waiting"]'}):
        session = rta_writers.SessionClient(url).session("run-1", stream="rig", identifier="Run <1>")
        write(client, session, 3)
        session.pause()
        session.update(group="g")
        session.resume()
        session.close()
        wait_until(lambda: len(receiver.posts) >= 4, what="four posts")
        wait_until(lambda: waiting(client, "r0") + waiting(client, "r1") == 0, what="empty queues")
        assert choosy.states() == [("run-1", "waiting")]
    changes = [one.change for one in receiver.posts]
    assert [(one["previous"], one["state"]) for one in changes] == [
        *((None, "open"), ("open", "waiting"), ("waiting", "open"), ("open", "closed")),
    ]
    assert [one["version"] for one in changes] == sorted(one["version"] for one in changes)
    assert len({one["id"] for one in changes}) == 4
    last = receiver.posts[-1]
    assert last.change["totals"]["samples"] == 3
    assert last.change["timeRange"] == ["1700000000000000000", "1700000000000000002"]
    assert (last.change["identifier"], last.change["stream"]) == ("Run <1>", "rig")
    assert last.headers["rta-delivery"] == last.change["id"]
    assert all(one.is_signed() for one in receiver.posts)
    assert not last.is_signed("another secret")
    kept: Any = client.hkeys("rtas:st:{sessions:run-1}")
    assert not any(name.startswith(b"t:") for name in kept)


def test_a_target_that_fails_gets_it_again(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Refusals, redirects and hang-ups are all tried again, with the same id, until it is taken."""
    receiver.answer = 500
    with posting(url, told(receiver)):
        rta_writers.SessionClient(url).session("run-1", stream="rig")
        for answer in (301, "hang up", 200):
            receiver.wait_for_another()
            receiver.answer = answer
        wait_until(lambda: waiting(client) == 0, what="it being taken")
    assert len({one.headers["rta-delivery"] for one in receiver.posts}) == 1
    assert [int(one.headers["rta-attempt"]) for one in receiver.posts] == list(range(1, len(receiver.posts) + 1))
    assert dead_letters(client) == []


def test_a_target_that_hangs_delays_nobody(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Sessions live on and the other target hears of them while one hangs; that one gets everything afterwards."""
    receiver.answer = "hang"
    with receiving() as other, posting(url, told(receiver, other)):
        sessions = rta_writers.SessionClient(url)
        for number in range(3):
            sessions.session(f"run-{number}", stream="rig").close()
        wait_until(lambda: len(other.posts) == 6, what="the other target")
        assert document(client, "run-2")["state"] == "closed"
        assert waiting(client, "r0") == 6
        receiver.answer = 204
        receiver.released.set()
        wait_until(lambda: waiting(client, "r0") == 0, what="the rest")
        assert set(receiver.states()) == set(other.states())


def test_eight_tries_then_the_dead_letters(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Given up with its reason in the log and the body kept for a person."""
    receiver.answer = 503
    with posting(url, told(receiver, FIRST_RETRY_S="0.0005")) as supervisor:
        rta_writers.SessionClient(url).session("run-1", stream="rig")
        event = supervisor.wait_for_event("webhook_dropped")
    assert len(receiver.posts) == 8
    assert (event["attempt"], event["reason"]) == (8, "it answered 503")
    [letter] = dead_letters(client)
    assert (letter[b"code"], letter[b"m"]) == (b"WebhookNotTaken", receiver.posts[0].body)
    assert waiting(client) == 0
    assert client.hgetall("rtas:hook:{r0}:tries") == {}


def test_a_breaker_spares_the_tries(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """After three failures the target is left alone, whatever waits; when it is well again it gets everything."""
    receiver.answer = 500
    quick = told(receiver, BREAKER_FAILURES="3", BREAKER_OPEN_S="1.5", FIRST_RETRY_S="0.001")
    with posting(url, quick) as supervisor:
        sessions = rta_writers.SessionClient(url)
        for number in range(5):
            sessions.session(f"run-{number}", stream="rig")
        supervisor.wait_for_event("webhook_paused")
        assert len(receiver.posts) == 3
        receiver.answer = 204
        supervisor.wait_for_event("webhook_resumed")
        wait_until(lambda: waiting(client) == 0, what="everything that waited")
    assert {identity for identity, _ in receiver.states()} == {f"run-{number}" for number in range(5)}


@pytest.mark.parametrize("word", ["rtas_hook_add_1", "HDEL", "rtas_hook_settle_1"])
def test_a_killed_supervisor_loses_no_change(url: str, client: redis.Redis, receiver: Receiver, word: str) -> None:
    """Kill -9 between a change and its queueing, before the note is removed, and after the post: the next one posts."""
    killing = {**told(receiver), "RTA_TEST_KILL_AT": "2", "RTA_TEST_KILL_WORD": word}
    sessions = rta_writers.SessionClient(url, timeout_s=60)
    with supervisors.running(url, killing, "tests.support.killable_supervisor") as first:
        session = sessions.session("run-1", stream="rig")
        send(client, control_pb2.CloseSession(request_id="c", identity="run-1", state="closed"), kind="req")
        wait_until(lambda: first.process.poll() is not None, what="its death")
        with posting(url, told(receiver, TIMEOUT_S="0.1")):
            assert session.close().state == "closed"
            wait_until(lambda: ("run-1", "closed") in receiver.states(), what="the post")
            wait_until(lambda: waiting(client) == 0, what="an empty queue")
    assert receiver.states()[0] == ("run-1", "open")
    ids = {(one.change["state"], one.headers["rta-delivery"]) for one in receiver.posts}
    assert len(ids) == 2, "a change that comes twice has the same id"


def test_what_waits_survives_a_restart(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Queued while nobody takes it, kill -9, another supervisor, the target comes back."""
    receiver.answer = 500
    with posting(url, told(receiver, FIRST_RETRY_S="0.3")) as first:
        rta_writers.SessionClient(url).session("run-1", stream="rig").close()
        wait_until(lambda: len(receiver.posts) >= 2, what="failed tries")
        first.kill()
    assert waiting(client) == 2
    receiver.answer = 204
    with posting(url, told(receiver)):
        wait_until(lambda: waiting(client) == 0, what="everything that waited")
    assert [int(one.headers["rta-attempt"]) for one in receiver.posts][-1] >= 2, "tries are counted across restarts"


def test_two_supervisors_post_once(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """A delivery is with one of them at a time."""
    environment = told(receiver, TIMEOUT_S="20")
    with posting(url, environment), posting(url, environment):
        sessions = rta_writers.SessionClient(url)
        for number in range(10):
            sessions.session(f"run-{number}", stream="rig").close()
        wait_until(lambda: waiting(client) == 0, what="an empty queue")
    assert len(receiver.posts) == len(set(receiver.states())) == 20


def test_a_full_queue_drops_the_oldest_and_says_so(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Bounded, and never silently."""
    receiver.answer = "hang"
    with posting(url, told(receiver, MAX_PENDING="2", TIMEOUT_S="30")) as supervisor:
        sessions = rta_writers.SessionClient(url)
        for number in range(4):
            sessions.session(f"run-{number}", stream="rig")
        assert supervisor.wait_for_event("webhook_dropped")["reason"] == "queue full"
        assert waiting(client) == 2
        receiver.released.set()


def test_the_receiver_of_the_guide_works(url: str, tmp_path: Path) -> None:
    """The example is run as it stands: it takes what is genuine and refuses the rest."""
    [program] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "receiver.py").write_text(program)
    environment = {**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": "0"}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "receiver.py")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as example:
        assert example.stdout is not None
        try:
            port = example.stdout.readline().split()[-1]
            hooks = {"R0__URL": f"http://127.0.0.1:{port}/", "R0__SECRET": SECRET}
            with posting(url, {f"RTA_WEBHOOKS__TO__{name}": value for name, value in hooks.items()}):
                rta_writers.SessionClient(url).session("run-1", stream="rig").close()
                assert [example.stdout.readline() for _ in range(2)] == ["run-1 open\n", "run-1 closed\n"]
            with socket.create_connection(("127.0.0.1", int(port))) as forger:
                forger.sendall(
                    b"POST / HTTP/1.0\r\nContent-Length: 2\r\nRta-Delivery: x\r\nRta-Signature: t=1,v1=00\r\n\r\n{}"
                )
                assert b" 401 " in forger.recv(100)
        finally:
            example.kill()
