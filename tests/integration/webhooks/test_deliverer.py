"""Webhooks against a real HTTP server that accepts, refuses, hangs and comes back."""

import contextlib
import json
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
from rta_wire.control import messages
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


def webhook_environment(*receivers: Receiver, **changes: str) -> dict[str, str]:
    """Settings with the receivers as targets r0, r1 ..., and short pauses, as environment variables."""
    quick = {"TIMEOUT_S": "0.5", "FIRST_RETRY_S": "0.02", "BREAKER_OPEN_S": "0.05", "BREAKER_FAILURES": "1000"}
    environment = {f"RTA_WEBHOOKS__{name}": value for name, value in (quick | changes).items()}
    for number, receiver in enumerate(receivers):
        environment[f"RTA_WEBHOOKS__TO__R{number}__URL"] = receiver.url
        environment[f"RTA_WEBHOOKS__TO__R{number}__SECRET"] = SECRET
    return environment


@contextlib.contextmanager
def posting(url: str, environment: dict[str, str]) -> Iterator[supervisors.Supervisor]:
    """A supervisor that is killed at the end: how it stops is not what these tests are about."""
    with supervisors.running(url, environment) as supervisor:
        try:
            yield supervisor
        finally:
            supervisor.kill()


def queued(client: redis.Redis, target: str = "r0") -> int:
    """How many deliveries are in the queue of a target."""
    return int(str(client.zcard(f"rtas:hook:{{{target}}}:due")))


def test_every_change_of_state_is_posted_and_signed(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Open, pause, resume, close: four signed posts with totals. A target that wants one state gets no other."""
    with (
        receiving() as choosy,
        posting(url, webhook_environment(receiver, choosy) | {"RTA_WEBHOOKS__TO__R1__STATES": '["waiting"]'}),
    ):
        session = rta_writers.SessionClient(url).session("run-1", stream="rig", identifier="Run <1>")
        write(client, session, 3)
        session.pause()
        session.update(group="g")
        session.resume()
        session.close()
        wait_until(lambda: len(receiver.posts) >= 4, what="four posts")
        wait_until(lambda: queued(client, "r0") + queued(client, "r1") == 0, what="empty queues")
        assert choosy.states() == [("run-1", "waiting")]
    changes = [post.change for post in receiver.posts]
    assert [(change["previous"], change["state"]) for change in changes] == [
        *((None, "open"), ("open", "waiting"), ("waiting", "open"), ("open", "closed")),
    ]
    assert [change["version"] for change in changes] == sorted(change["version"] for change in changes)
    assert len({change["id"] for change in changes}) == 4
    last = receiver.posts[-1]
    assert last.change["totals"]["samples"] == 3
    assert last.change["timeRange"] == ["1700000000000000000", "1700000000000000002"]
    assert (last.change["identifier"], last.change["stream"]) == ("Run <1>", "rig")
    assert last.headers["rta-delivery"] == last.change["id"]
    assert all(post.is_signed() for post in receiver.posts)
    assert not last.is_signed("another secret")
    fields: Any = client.hkeys("rtas:st:{sessions:run-1}")
    assert not any(name.startswith(b"t:") for name in fields)


def test_a_delivery_that_fails_is_tried_again(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """After errors, redirects and closed connections, with the same id, until the target accepts it."""
    receiver.answer = 500
    with posting(url, webhook_environment(receiver)):
        rta_writers.SessionClient(url).session("run-1", stream="rig")
        for answer in (301, "hang up", 200):
            receiver.wait_for_another()
            receiver.answer = answer
        wait_until(lambda: queued(client) == 0, what="an empty queue")
    assert len({post.headers["rta-delivery"] for post in receiver.posts}) == 1
    assert [int(post.headers["rta-attempt"]) for post in receiver.posts] == list(range(1, len(receiver.posts) + 1))
    assert dead_letters(client) == []


def test_a_target_that_hangs_delays_no_other(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Sessions go on and the other target gets its posts while one hangs, which gets everything afterwards."""
    receiver.answer = "hang"
    with receiving() as other, posting(url, webhook_environment(receiver, other)):
        sessions = rta_writers.SessionClient(url)
        for number in range(3):
            sessions.session(f"run-{number}", stream="rig").close()
        wait_until(lambda: len(other.posts) == 6, what="the other target")
        assert document(client, "run-2")["state"] == "closed"
        assert queued(client, "r0") == 6
        receiver.answer = 204
        receiver.released.set()
        wait_until(lambda: queued(client, "r0") == 0, what="the rest")
        assert set(receiver.states()) == set(other.states())


def test_a_delivery_that_keeps_failing_becomes_a_dead_letter(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """After eight attempts, with the reason in the log and its body among the dead letters."""
    receiver.answer = 503
    with posting(url, webhook_environment(receiver, FIRST_RETRY_S="0.0005")) as supervisor:
        rta_writers.SessionClient(url).session("run-1", stream="rig")
        event = supervisor.wait_for_event("webhook_dropped")
    assert len(receiver.posts) == 8
    assert (event["attempt"], event["reason"]) == (8, "it answered 503")
    [letter] = dead_letters(client)
    assert (letter[b"code"], letter[b"m"]) == (b"WebhookNotTaken", receiver.posts[0].body)
    assert queued(client) == 0
    assert client.hgetall("rtas:hook:{r0}:tries") == {}


def test_an_open_breaker_sends_nothing(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """After three failures, whatever is queued; once the target accepts again it gets everything."""
    receiver.answer = 500
    quick = webhook_environment(receiver, BREAKER_FAILURES="3", BREAKER_OPEN_S="1.5", FIRST_RETRY_S="0.001")
    with posting(url, quick) as supervisor:
        sessions = rta_writers.SessionClient(url)
        for number in range(5):
            sessions.session(f"run-{number}", stream="rig")
        supervisor.wait_for_event("webhook_paused")
        assert len(receiver.posts) == 3
        receiver.answer = 204
        supervisor.wait_for_event("webhook_resumed")
        wait_until(lambda: queued(client) == 0, what="an empty queue")
    assert {identity for identity, _ in receiver.states()} == {f"run-{number}" for number in range(5)}


@pytest.mark.parametrize("word", ["rtas_hook_add_2", "HDEL", "rtas_hook_settle_2"])
def test_a_killed_supervisor_loses_no_change(url: str, client: redis.Redis, receiver: Receiver, word: str) -> None:
    """Kill -9 before a change is queued, before its note is removed, after the post: the next supervisor posts it."""
    killing = {**webhook_environment(receiver), "RTA_TEST_KILL_AT": "2", "RTA_TEST_KILL_WORD": word}
    sessions = rta_writers.SessionClient(url, timeout_s=60)
    with supervisors.running(url, killing, "tests.support.killable_supervisor") as first:
        session = sessions.session("run-1", stream="rig")
        send(client, control_pb2.CloseSession(request_id="c", identity="run-1", state="closed"), kind="req")
        wait_until(lambda: first.process.poll() is not None, what="its death")
        with posting(url, webhook_environment(receiver, TIMEOUT_S="0.1")):
            assert session.close().state == "closed"
            wait_until(lambda: ("run-1", "closed") in receiver.states(), what="the post")
            wait_until(lambda: queued(client) == 0, what="an empty queue")
    assert receiver.states()[0] == ("run-1", "open")
    ids = {(post.change["state"], post.headers["rta-delivery"]) for post in receiver.posts}
    assert len(ids) == 2, "a change that is posted twice has the same id"


def test_queued_deliveries_survive_a_restart(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """Queued while the target fails, then kill -9: another supervisor posts them once the target is back."""
    receiver.answer = 500
    with posting(url, webhook_environment(receiver, FIRST_RETRY_S="0.3")) as first:
        rta_writers.SessionClient(url).session("run-1", stream="rig").close()
        wait_until(lambda: len(receiver.posts) >= 2, what="failed tries")
        first.kill()
    assert queued(client) == 2
    receiver.answer = 204
    with posting(url, webhook_environment(receiver)):
        wait_until(lambda: queued(client) == 0, what="an empty queue")
    assert [int(post.headers["rta-attempt"]) for post in receiver.posts][-1] >= 2, (
        "attempts are counted across restarts"
    )


def test_two_supervisors_post_once(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """A delivery is taken by one of them at a time."""
    environment = webhook_environment(receiver, TIMEOUT_S="20")
    with posting(url, environment), posting(url, environment):
        sessions = rta_writers.SessionClient(url)
        for number in range(10):
            sessions.session(f"run-{number}", stream="rig").close()
        wait_until(lambda: queued(client) == 0, what="an empty queue")
    assert len(receiver.posts) == len(set(receiver.states())) == 20


def test_a_full_queue_moves_the_oldest_to_the_dead_letters(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """It never grows past its limit; what is dropped is a dead letter, and the log names the principal."""
    receiver.answer = "hang"
    with posting(url, webhook_environment(receiver, MAX_PENDING="2", TIMEOUT_S="30")) as supervisor:
        sessions = rta_writers.SessionClient(url)
        for number in range(4):
            sessions.session(f"run-{number}", stream="rig")
        wait_until(lambda: len(dead_letters(client)) == 2, what="dead letters")
        event = supervisor.wait_for_event("webhook_dropped")
        assert "webhooks.max_pending" in str(event["reason"])
        assert event["principal"] == "default"
        assert queued(client) == 2
        receiver.released.set()
    assert [(letter[b"code"], json.loads(letter[b"m"])["identity"]) for letter in dead_letters(client)] == [
        (b"WebhookQueueFull", "run-1"),
        (b"WebhookQueueFull", "run-2"),
    ]


def test_a_principal_with_many_deliveries_delays_nobody(url: str, client: redis.Redis, receiver: Receiver) -> None:
    """One session pauses and resumes 150 times and 30 others open: the failure of another principal's session is the
    next but one post, the opening of another session of the same principal comes soon, and each that is not posted is
    counted."""
    receiver.answer = "hang"
    principals = {"RTA_CONTROL__PRINCIPALS": '["noisy", "quiet"]', "RTA_LIMITS__WEBHOOK_DELIVERIES": "110"}
    with posting(url, webhook_environment(receiver, TIMEOUT_S="30") | principals) as supervisor:
        noisy = rta_writers.SessionClient(url, principal="noisy")
        session = noisy.session("noisy-run", stream="rig")
        wait_until(lambda: receiver.posts, what="the post that hangs")
        for number in range(300):
            state = ("waiting", "open")[number % 2]
            update = control_pb2.UpdateSession(request_id=f"u{number}", identity="noisy-run", state=state)
            client.xadd("rtas:req:noisy", {"m": messages.pack(update)})
        wait_until(lambda: client.xlen("rtas:req:noisy") == 0, what="pauses that are all served")
        for number in range(30):
            noisy.session(f"zz-{number:02}", stream="rig")
        rta_writers.SessionClient(url, principal="quiet").session("quiet-run", stream="rig").close(state="failed")
        assert queued(client) <= 110 + 2
        receiver.answer = 204
        receiver.released.set()
        wait_until(lambda: queued(client) == 0, what="an empty queue")
        dropped = supervisor.wait_for_event("webhook_dropped")
        reached = supervisor.wait_for_event("limit_reached")
        superseded = supervisor.wait_for_event("webhook_superseded")
        session.close()
    posts = [post.change for post in receiver.posts]
    identities = [change["identity"] for change in posts]
    assert identities.index("quiet-run") <= 2
    assert ("quiet-run", "failed") in receiver.states()[:6]
    assert identities.index("zz-29") < 100, "sessions of one principal take turns too"
    assert (dropped["principal"], reached["principal"], superseded["session"]) == ("noisy", "noisy", "noisy-run")
    letters = dead_letters(client)
    assert {letter[b"code"] for letter in letters} == {b"WebhookQueueFull"}
    assert {json.loads(letter[b"m"])["identity"] for letter in letters} == {"noisy-run"}
    last = [change["version"] for change in posts if change["identity"] == "noisy-run"]
    assert max(last) >= 301, "the last changes of a session are posted"


def test_the_receiver_of_the_guide_works(url: str, tmp_path: Path) -> None:
    """The example in docs/webhooks.md is run as it is: it accepts signed posts and refuses a forged one."""
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
