"""`rta-supervisor doctor --repair`: mends what is safe to mend, and says why it leaves the rest."""

import contextlib
import sqlite3

import pytest
import redis

import rta_writers
from rta_wire import entry_ids, keys
from tests.integration.observe.test_doctor import problems, run_doctor
from tests.support.commands import run
from tests.support.control import document
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

NAMES = keys.Keys()


def repair(url: str, key: str, *options: str) -> tuple[int, str]:
    command = run(url, "doctor", "--repair", key, *options)
    return command.code, command.out + command.err


def test_a_spoilt_session_is_named_ended_and_mended(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """From the finding of the doctor to a deployment without one."""
    sessions.open("run-1", stream="rig")
    marks = NAMES.marks("rig", 1)
    client.set(marks, "junk", ex=1000)
    finding = run_doctor(url, code=69)["spoilt keys"]
    assert (finding.level, marks in finding.found, f"--repair '{marks}'" in finding.remedy) == ("bad", True, True)
    code, text = repair(url, marks, "--yes")
    assert (code, "End it first: rta-supervisor sessions abandon" in text) == (64, True)
    assert run(url, "sessions", "abandon", "run-1", "--yes").code == 0
    assert document(client, "run-1")["state"] == "abandoned"
    assert "spoilt keys" not in problems(run_doctor(url))
    shown = run(url, "sessions", "show", "run-1").out
    assert "something else stands in place of the marks" in " ".join(shown.split())
    code, _ = repair(url, marks, "--yes")
    assert (code, client.exists(marks)) == (0, 0)


def test_a_state_of_another_type_comes_back_from_the_catalogue(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, supervisor: Supervisor
) -> None:
    """Nothing else knows whose session it was."""
    sessions.open("run-1", stream="rig")
    state = NAMES.session_state("run-1")
    [started] = supervisor.events("supervisor_started")
    with contextlib.closing(sqlite3.connect(str(started["catalogue"]))) as file:
        wait_until(lambda: file.execute("SELECT count(*) FROM sessions").fetchone() == (1,), what="a row")
    client.delete(state)
    client.set(state, "junk", ex=1000)
    assert run(url, "sessions", "abandon", "run-1", "--yes").code != 0
    code, text = repair(url, state)
    assert (code, "say --yes" in text, client.exists(state)) == (64, True, 1), "nobody could be asked"
    assert repair(url, state, "--yes", "--json")[0] == 0

    def is_back() -> bool:
        return run(url, "sessions", "resurrect", "run-1").code == 0 and bool(client.exists(state))

    wait_until(is_back, what="a session that is back")
    assert run(url, "sessions", "abandon", "run-1", "--yes").code == 0
    assert document(client, "run-1")["state"] == "abandoned"


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("SET", NAMES.marks("rig", 9), "junk"), NAMES.marks("rig", 9)),
        (("HSET", NAMES.marks("rig", 9), "u", "x"), NAMES.marks("rig", 9)),
        (("SET", NAMES.fence("rig", 9, "u"), "x"), NAMES.fence("rig", 9, "u")),
        (("SADD", NAMES.members("job"), "x"), NAMES.members("job")),
        (("HSET", NAMES.gate("rig", 9), "u", "x"), NAMES.gate("rig", 9)),
        (("HSET", NAMES.session_state("gone"), "u", "x"), NAMES.session_state("gone")),
        (("SET", NAMES.session("gone"), "x"), NAMES.session("gone")),
        (("SET", "stream:gone", "x"), "stream:gone"),
        (("XADD", "stream:gone", entry_ids.MAX, "a", "b"), "stream:gone"),
        (("XADD", "stream:nobody-s", "1700000000000-0", "a", "b"), "stream:nobody-s"),
        (("SET", NAMES.reports("gone"), "x"), NAMES.reports("gone")),
    ],
)
def test_what_nobody_uses_is_removed(client: redis.Redis, url: str, command: tuple[str, ...], key: str) -> None:
    """Keys of another type, without a lifetime, or without ids that are left."""
    client.execute_command(*command)
    assert repair(url, key, "--yes")[0] == 0
    assert not client.exists(key)


def test_what_is_not_safe_is_left(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """With the reason, and nothing is changed by it."""
    session = sessions.open("run-1", stream="rig")
    client.hset(NAMES.marks("rig", 1), "u", "x")
    client.expire(NAMES.marks("rig", 1), 1000)
    client.xadd("stream:closed", {"a": "b"})
    client.xadd("stream:closed", {"a": "b"}, id=entry_ids.MAX)
    client.xadd("stream:written", {"a": "b"})
    client.expire("stream:written", 1000)
    client.xadd("rtas:ctl:full", {"m": b"x"}, id=entry_ids.MAX)
    client.hset(NAMES.marks("rig", 9), "u", "x")
    client.expire(NAMES.marks("rig", 9), 1000)
    before = {key: client.dump(key) for key in client.keys("*") if b"rtas:seen" not in key}
    for key, reason in {
        NAMES.marks("rig", 1): "its session is not closed",
        NAMES.marks("rig", 9): "nothing is wrong with it",
        NAMES.gate("rig", 1): "sessions abandon run-1",
        NAMES.session_state("run-1"): "it is the state of a session",
        NAMES.session("run-1"): "it is the hash of a session",
        "stream:rig": "is open in it",
        "stream:closed": "its entries would be lost",
        "stream:written": "Try again when it is quiet for an hour",
        "rtas:ctl:full": "1 messages in it are not handled yet",
        "rtas:ctl:default": "its ids are not used up",
        NAMES.session_index(): "no writer can spoil it",
        "nobody's": "there is no such key",
    }.items():
        code, text = repair(url, key, "--yes")
        assert (code, reason in " ".join(text.split())) == (64, True), (key, text)
    for key in (NAMES.marks("rig", 1), NAMES.gate("rig", 1), "stream:closed", "rtas:ctl:full"):
        assert client.dump(key) == before[key.encode()]
    client.delete("rtas:ctl:full", "stream:closed")
    assert session.close().state == "truncated", "a mark that is none was left out"
