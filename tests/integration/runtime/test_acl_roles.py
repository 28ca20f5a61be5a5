"""Roles in Redis: each has what it needs and nothing else, on a real server with the files of conf/acl."""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, keys, redis_errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from rta_writers.options import read as options_read
from rta_writers.read import batches
from rta_writers.read import plan as read_plan
from tests.support import acl, command_recorder, samples, supervisors
from tests.support.day_streams import fill, traces
from tests.support.waiting import wait_until

WITHOUT_LEAVE = {"auth", "hello", "quit", "reset"}
"""What everybody may do, whatever the ACL says: it comes before signing in."""

WRITER = "writer-rig-4"
ROLES = ("supervisor", WRITER, "reader")


@pytest.fixture(scope="module")
def own() -> Iterator[server.EmbeddedServer]:
    with acl.running() as running:
        yield running


@pytest.fixture
def admin(own: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(own.socket_path), decode_responses=True, protocol=2) as client:
        yield client


@contextlib.contextmanager
def signed_in(own: server.EmbeddedServer, user: str) -> Iterator[redis.Redis]:
    path = str(own.socket_path)
    with redis.Redis(unix_socket_path=path, username=user, password=acl.PASSWORD, driver_info=None) as client:
        client.response_callbacks.clear()
        yield client


def is_allowed(client: redis.Redis, *words: Any) -> bool:
    """Whether the ACL lets a command through; what the command itself says is no matter."""
    try:
        client.execute_command(*words)
    except redis.exceptions.ResponseError as error:
        found = redis_errors.classify(error)
        return found is None or found.code != "NOPERM"
    return True


def commands(admin: redis.Redis) -> dict[str, int]:
    """Every command and subcommand of the server, with its arity."""
    found: dict[str, int] = {}
    for info in admin.execute_command("COMMAND").values():
        for one in info.get("subcommands") or [info]:
            fields = one if isinstance(one, dict) else {"name": one[0], "arity": one[1]}
            found[str(fields["name"])] = int(fields["arity"])
    return found


@pytest.mark.parametrize("role", ROLES)
def test_every_command_of_the_server(own: server.EmbeddedServer, admin: redis.Redis, role: str) -> None:
    """Signed in as a role, each command is tried: those of its file are let through, all others are refused."""
    granted = acl.granted(admin, role)
    every = {name: arity for name, arity in commands(admin).items() if name not in WITHOUT_LEAVE}
    assert granted <= set(every)
    wrong = []
    with signed_in(own, role) as client:
        for name, arity in sorted(every.items()):
            if name in granted:
                continue
            words = name.split("|")
            dummies = ["x"] * max(0, abs(arity) - len(words))
            if is_allowed(client, *words, *dummies):
                wrong.append(name)
    assert wrong == []


GATE = "rtas:gate:{stream:rig-4.a}:1"
MARKS = "rtas:dd:{stream:rig-4.a}:1"
OTHER_MARKS = "rtas:dd:{stream:rig-5.a}:1"

ALLOWED: dict[str, list[tuple[Any, ...]]] = {
    WRITER: [
        ("PING",),
        ("XADD", "stream:rig-4.a", "*", "id", 1, "data", "x"),
        ("XADD", "rtas:ctl:rig-4", "*", "m", "x"),
        ("XADD", "rtas:req:rig-4", "*", "m", "x"),
        ("XRANGE", "rtas:req:rig-4", "-", "+"),
        ("WATCH", GATE, f"{MARKS}:u"),
        ("GET", GATE),
        ("HSET", MARKS, "u", "x"),
        ("HGET", MARKS, "u"),
        ("HGETALL", MARKS),
        ("EXPIRE", MARKS, 60),
        ("SET", f"{MARKS}:u", "x"),
        ("HSET", "rtas:sg:{stream:rig-4.a}:1:x", "0", "x"),
        ("HMGET", "rtas:sg:{stream:rig-4.a}:1:x", "0"),
        ("UNLINK", "rtas:sg:{stream:rig-4.a}:1:x"),
        ("SET", "rtas:mf:{stream:rig-4.a}:1:u:0", "x"),
        ("SADD", "rtas:grp:x", "run"),
        ("SMEMBERS", "rtas:grp:x"),
        ("BLMOVE", "rtas:reply:x", "rtas:reply:x", "LEFT", "RIGHT", 0.01),
        ("ZRANGE", "rtas:nodes", 0, -1),
        ("EXISTS", "rtas:node:x"),
        ("HGET", "rtas:st:{sessions:run}", "state"),
        ("MULTI",),
        ("EXEC",),
    ],
    "reader": [
        ("PING",),
        ("XREAD", "STREAMS", "stream:rig-4.a", "0"),
        ("XRANGE", "stream:rig-5.a", "-", "+"),
        ("XREVRANGE", "stream:rig-5.a", "+", "-"),
        ("XLEN", "stream:rig-4.a"),
        ("XINFO", "STREAM", "stream:rig-4.a"),
        ("SMEMBERS", "streams"),
        ("SISMEMBER", "streams", "rig-4.a"),
        ("HGETALL", "sessions:run"),
        ("HGET", "sessions:run", "json"),
        ("HMGET", "sessions:run", "json"),
        ("TTL", "sessions:run"),
        ("ZRANGE", "rtas:idx", 0, -1),
        ("XRANGE", "cold:rig-4.a", "-", "+"),
        ("HGET", "rtas:cold", "rig-4.a"),
    ],
    "supervisor": [
        ("XADD", "stream:any", "*", "id", 1, "data", "x"),
        ("XTRIM", "stream:any", "MAXLEN", 1),
        ("SADD", "streams", "any"),
        ("HSET", "sessions:run", "json", "{}"),
        ("INCRBY", "lastStreamSessionId", 1),
        ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "rtas:ctl:rig-4", ">"),
        ("PUBLISH", "rtas:state:run", "open"),
        ("INFO", "server"),
        ("UNLINK", "sessions:run", "stream:any", "cold:any"),
        ("HDEL", "rtas:cold", "any"),
    ],
}

DENIED: dict[str, list[tuple[Any, ...]]] = {
    WRITER: [
        ("XADD", "stream:rig-5.a", "*", "id", 1, "data", "x"),
        ("XADD", "stream:rig-4", "*", "id", 1, "data", "x"),
        ("XADD", "rtas:ctl:rig-5", "*", "m", "x"),
        ("XADD", "rtas:ctl:rig-44", "*", "m", "x"),
        ("XADD", "rtas:req:rig-5", "*", "m", "x"),
        ("XADD", "rtas:dlq", "*", "m", "x"),
        ("XADD", "cold:rig-4.a", "*", "b", "x"),
        ("XRANGE", "cold:rig-4.a", "-", "+"),
        ("HSET", "rtas:cold", "rig-4.a", "x"),
        ("XRANGE", "rtas:req:rig-5", "-", "+"),
        ("XRANGE", "rtas:ctl:rig-4", "-", "+"),
        ("XRANGE", "stream:rig-4.a", "-", "+"),
        ("XTRIM", "stream:rig-4.a", "MAXLEN", 0),
        ("XDEL", "stream:rig-4.a", "1-1"),
        ("SET", GATE, "open"),
        ("EXPIRE", GATE, 1),
        ("UNLINK", GATE),
        ("UNLINK", "stream:rig-4.a"),
        ("SET", "stream:rig-4.a", "x"),
        ("EXPIRE", "stream:rig-4.a", 1),
        ("SET", "rtas:ctl:rig-4", "x"),
        ("UNLINK", "rtas:req:rig-4"),
        ("HSET", "rtas:reply:x", "a", "b"),
        ("UNLINK", "rtas:reply:x"),
        ("UNLINK", MARKS),
        ("XADD", MARKS, "*", "a", "b"),
        ("HGETALL", "rtas:st:{sessions:run}"),
        ("SADD", MARKS, "x"),
        ("HSET", OTHER_MARKS, "u", "x"),
        ("HGETALL", OTHER_MARKS),
        ("GET", "rtas:gate:{stream:rig-5.a}:1"),
        ("HSET", "sessions:run", "json", "{}"),
        ("HGETALL", "sessions:run"),
        ("HSET", "rtas:st:{sessions:run}", "principal", "rig-4"),
        ("SADD", "streams", "rig-4.a"),
        ("SMEMBERS", "streams"),
        ("GET", "lastStreamSessionId"),
        ("SET", "lastStreamSessionId", 1),
        ("UNLINK", "rtas:node:x"),
        ("ZADD", "rtas:nodes", 1, "x"),
        ("FCALL", "rtas_finish_2", 1, "stream:rig-4.a"),
        ("SUBSCRIBE", "other"),
        ("KEYS", "*"),
        ("SCAN", 0),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("CLIENT", "LIST"),
    ],
    "reader": [
        ("XADD", "stream:rig-4.a", "*", "id", 1, "data", "x"),
        ("XTRIM", "stream:rig-4.a", "MAXLEN", 0),
        ("XADD", "cold:rig-4.a", "*", "b", "x"),
        ("HSET", "rtas:cold", "rig-4.a", "x"),
        ("SET", "rtas:coldpause", "x"),
        ("XRANGE", "rtas:req:rig-4", "-", "+"),
        ("XRANGE", "rtas:dlq", "-", "+"),
        ("XREAD", "STREAMS", "rtas:ctl:rig-4", "0"),
        ("HGETALL", "rtas:st:{sessions:run}"),
        ("HSET", "sessions:run", "json", "{}"),
        ("SADD", "streams", "x"),
        ("SUBSCRIBE", "rtas:state:run"),
        ("UNLINK", "sessions:run"),
        ("ZRANGE", "rtas:nodes", 0, -1),
        ("KEYS", "*"),
        ("SCAN", 0),
    ],
    "supervisor": [
        ("SET", "somebody:else", 1),
        ("HGETALL", "session:run"),
        ("PUBLISH", "other", "x"),
        ("SUBSCRIBE", "rtas:state:run"),
        ("KEYS", "*"),
        ("SCAN", 0),
        ("FLUSHALL",),
        ("FUNCTION", "FLUSH"),
        ("FUNCTION", "DELETE", "x"),
        ("EVAL", "return 1", 0),
        ("CONFIG", "SET", "maxmemory", 1),
        ("ACL", "LIST"),
        ("CLIENT", "KILL", "ID", 1),
        ("SHUTDOWN",),
        ("DEBUG", "SLEEP", 0),
        ("REPLICAOF", "NO", "ONE"),
    ],
}


@pytest.mark.parametrize("role", ROLES)
def test_keys_of_ones_own_and_of_others(own: server.EmbeddedServer, role: str) -> None:
    """Signed in as a role: what it works with is let through, what is somebody else's is not."""
    with signed_in(own, role) as client:
        assert [words for words in ALLOWED[role] if not is_allowed(client, *words)] == []
        assert [words for words in DENIED[role] if is_allowed(client, *words)] == []


@pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server: apt install redis-server")
def test_the_files_load_on_debians_redis(tmp_path: Path) -> None:
    """A subcommand that a 7.0 server does not know would keep it from starting."""
    (tmp_path / "users.acl").write_text("".join(acl.lines()))
    path = tmp_path / "redis.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", str(path), "--aclfile", str(tmp_path / "users.acl")]
    with subprocess.Popen([*words, "--dir", str(tmp_path), "--save", ""], stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: path.exists() or process.poll() is not None, what="redis-server")
            assert process.poll() is None, process.communicate()[0]
            with redis.Redis(unix_socket_path=str(path)) as client:
                assert len(client.acl_users()) == len(acl.lines())
        finally:
            process.terminate()


class Stage:
    """A server with users, and a way in for each role that writes down what it asks for."""

    def __init__(self, own: server.EmbeddedServer, stack: contextlib.ExitStack) -> None:
        path = str(own.socket_path)
        self.inside = stack.enter_context(command_recorder.scripts(path))
        self.ways = {role: stack.enter_context(command_recorder.recording(path)) for role in ROLES}

    def url(self, role: str) -> str:
        return self.ways[role].url(role, acl.PASSWORD)

    def seen(self, role: str) -> set[str]:
        return (self.ways[role].seen | (self.inside if role == "supervisor" else set())) - WITHOUT_LEAVE


QUICKLY = {
    "RTA_CONTROL__PRINCIPALS": '["rig-4", "rig-5"]',
    "RTA_TRIM__EVERY_S": "0.1",
    "RTA_TRIM__MAX_ENTRIES": "5",
    "RTA_TRIM__MAX_BYTES": "100000",
    "RTA_TRIM__MAX_AGE_S": "600",
    "RTA_TRIM__EXACT": "true",
    "RTA_TRIM__MIN_RETENTION_S": "0",
    "RTA_SESSION__CLOSE_GRACE_S": "60",
    "RTA_CONTROL__RETRY_S": "30",
    "RTA_NODE__TTL_S": "2",
    "RTA_NODE__LEASE_S": "1.5",
    "RTA_NODE__RENEW_S": "0.5",
    "RTA_DAYS__SOURCES__RIG-4.C__PARTITION": "day",
}
OLD_DAY = day_streams.Day("rig-4.c", 20_000)

ON_OTHER_DAYS = {"supervisor": {"hdel", "hsetnx", "zrevrange"}}
"""What webhooks and the live page need on top."""

SOONER = {
    "RTA_COMPACT__AFTER_S": "0.2",
    "RTA_COMPACT__EVERY_S": "0.1",
    "RTA_SESSION__CLOSE_GRACE_S": "0.5",
    "RTA_SESSION__WRITER_SILENT_S": "1",
    "RTA_SESSION__CLOSED_TTL_S": "1",
    "RTA_TRIM__IDLE_STREAM_S": "1",
}


def rows(count: int) -> pa.RecordBatch:
    times = [samples.START_NS + n for n in range(count)]
    return pa.record_batch({"channel": [1] * count, "time": times, "value": [float(n) for n in range(count)]})


def write(sessions: rta_writers.SessionClient) -> None:
    """A writer's day: sessions opened, described, waited for, written to in every delivery, cancelled, closed."""
    with sessions.open("run", stream="rig-4.a", external_id="mine") as session:
        session.pause()
        session.resume()
        sessions.wait("run", "open", timeout_s=20)
        for delivery in ("exactly-once", "at-least-once", "staged"):
            options = {**session.options, "delivery": delivery, "wait": "true"}
            with rta_writers.BurstWriter(options, unit=delivery) as writer:
                writer.write(rows(10))
    with rta_writers.sessions(sessions, stream="rig-4.c") as group:
        frame = rows(4).append_column("session", pa.array(["a", "b", "a", "b"]))
        with rta_writers.BurstWriter(group.options) as writer:
            writer.write(frame)
        wait_until(lambda: len(group.identities()) == 2, what="a group")
        group._sessions.report(control_pb2.Heartbeat(identity="a", stream_session_id=1))
    sessions.open("brief", stream="rig-4.a")
    asked = messages.new_request_id()
    sessions.close("brief", request_id=asked)
    with pytest.raises(errors.RequestAnswered):
        sessions.cancel(asked)


def read(url: str) -> None:
    """A reader's: the list of streams, a session's hash, its entries as they come, and the same as columns."""
    with redis_client.connect(url) as client:
        assert b"rig-4.a" in client.smembers("streams")
        assert client.sismember("streams", "rig-4.a")
        assert client.hgetall("sessions:run")
        assert client.hget("sessions:run", "json")
        assert client.ttl("sessions:run")
        assert client.xread({"stream:rig-4.a": "0-0"}, count=1)
        assert client.xrevrange("stream:rig-4.a", count=1)
        assert client.xlen("stream:rig-4.a")
        client.ping()
        for given in ({"session": "run"}, {"stream": "rig-4.a"}):
            options = options_read.ReadOptions.parse({"redisUrl": url, "failOnDataLoss": "false", **given})
            place = read_plan.find_position(client, options)
            now = read_plan.read_counters(client, options, place.stream)
            names = read_plan.read_identities(client, options, place)
            for one in read_plan.plan_ranges(place, now, options, names, now.last_id):
                list(batches.read_batches(options, one, batches.RowFilter()))


async def look_for_functions(url: str) -> None:
    """What a supervisor does where it is started on a full server."""
    link = Link(settings.RedisSettings(url=url))
    assert await link.has_functions()
    await link.close()


def test_a_day_under_these_acls(tmp_path: Path) -> None:
    """The real daemon, writer and reader work with what the files give them, and use all of it: none is too many."""
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(acl.running())
        admin = stack.enter_context(
            redis.Redis(unix_socket_path=str(own.socket_path), decode_responses=True, protocol=2)
        )
        stage = Stage(own, stack)
        environment = {
            **QUICKLY,
            "RTA_REDIS__URL": stage.url("supervisor"),
            "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite"),
        }
        sessions = rta_writers.SessionClient(stage.url(WRITER), principal="rig-4", timeout_s=30)
        with supervisors.running("", environment) as first:
            left_open = sessions.open("left-open", stream="rig-4.b")
            write(sessions)
            read(stage.url("reader"))
            fill(admin, OLD_DAY, cold=True)
            wait_until(lambda: first.events("day_removed"), what="a day that is too old")
            assert traces(admin, OLD_DAY) == set()
            admin.xadd("rtas:ctl:rig-5", {"m": b"junk"})
            wait_until(lambda: first.events("message_refused"), what="a dead letter")
            wait_until(lambda: int(admin.xlen("stream:rig-4.a")) <= 5, what="a stream that was trimmed")
            # A close that waits for what never comes, requests that are over before it is, and an heir for it.
            sessions.open("held", stream="rig-4.a")
            closing = threading.Thread(target=sessions.close, args=("held",), kwargs={"expected": Totals(bursts=1)})
            closing.start()
            wait_until(
                lambda: admin.xpending("rtas:req:rig-4", keys.CONTROL_GROUP)["pending"], what="a close that waits"
            )
            for _ in range(3):
                sessions.update("left-open", identifier="Left open")
            second = stack.enter_context(supervisors.running("", {**environment, **SOONER}))
            first.kill()
            closing.join()
            wait_until(lambda: second.events("writer_silent"), what="a session that was left")
            wait_until(lambda: second.events("stream_compacted"), what="a stream that is cold")
            wait_until(lambda: second.events("stream_removed"), what="a stream that nobody uses")
            assert second.stop() == 0
        del left_open
        anyio.run(look_for_functions, stage.url("supervisor"))
        assert admin.acl_log() == []
        for role in ROLES:
            granted, seen = acl.granted(admin, role), stage.seen(role)
            assert (role, granted - seen - ON_OTHER_DAYS.get(role, set()), seen - granted) == (role, set(), set())
