"""Roles in Redis: which commands and keys each may use, on a real server with the files of conf/acl."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from rta_supervisor.embedded import server
from rta_wire import redis_errors
from tests.support import acl
from tests.support.acl import ROLES, WITHOUT_LEAVE, WRITER
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def acl_server() -> Iterator[server.EmbeddedServer]:
    with acl.running() as running:
        yield running


@pytest.fixture
def admin(acl_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(acl_server.socket_path), decode_responses=True, protocol=2) as client:
        yield client


@contextlib.contextmanager
def signed_in(acl_server: server.EmbeddedServer, user: str) -> Iterator[redis.Redis]:
    path = str(acl_server.socket_path)
    with redis.Redis(unix_socket_path=path, username=user, password=acl.PASSWORD, driver_info=None) as client:
        client.response_callbacks.clear()
        yield client


def is_allowed(client: redis.Redis, *command: Any) -> bool:
    """Whether the ACL lets a command through; what the command itself says is no matter."""
    try:
        client.execute_command(*command)
    except redis.exceptions.ResponseError as error:
        failure = redis_errors.classify(error)
        return failure is None or failure.code != "NOPERM"
    return True


def commands(admin: redis.Redis) -> dict[str, int]:
    """Every command and subcommand of the server, with its arity."""
    arities: dict[str, int] = {}
    for command in admin.execute_command("COMMAND").values():
        for subcommand in command.get("subcommands") or [command]:
            fields = subcommand if isinstance(subcommand, dict) else {"name": subcommand[0], "arity": subcommand[1]}
            arities[str(fields["name"])] = int(fields["arity"])
    return arities


@pytest.mark.parametrize("role", [*ROLES, "gateway"])
def test_every_command_of_the_server(acl_server: server.EmbeddedServer, admin: redis.Redis, role: str) -> None:
    """Signed in as a role, each command is tried: those of its file are let through, all others are refused."""
    granted = acl.granted(admin, role)
    every = {name: arity for name, arity in commands(admin).items() if name not in WITHOUT_LEAVE}
    assert granted <= set(every)
    wrong = []
    with signed_in(acl_server, role) as client:
        for name, arity in sorted(every.items()):
            if name in granted:
                continue
            command = name.split("|")
            dummies = ["x"] * max(0, abs(arity) - len(command))
            if is_allowed(client, *command, *dummies):
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
        ("UNLINK", "rtas:reply:x"),
        ("ZRANGE", "rtas:nodes", 0, -1),
        ("EXISTS", "rtas:node:x"),
        ("HMGET", "rtas:node:x", "template"),
        ("HGET", "rtas:st:{sessions:run}", "state"),
        ("GET", "rtas:config:x"),
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
        ("ZRANGE", "rtas:days:rig-4.c", 0, -1),
        ("HMGET", "rtas:node:last", "template"),
        ("GET", "rtas:config:x"),
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
        ("UNLINK", MARKS),
        ("HMGET", "rtas:payload:{rtas:req:rig-4}:x", "0"),
        ("HSET", "rtas:payload:{rtas:req:rig-4}:x", "0", "x"),
        ("UNLINK", "rtas:payload:{rtas:req:rig-5}:x"),
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
        ("FCALL", "rtas_finish_3", 1, "stream:rig-4.a"),
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
        ("HMGET", "rtas:node:x", "template"),
        ("ZADD", "rtas:days:rig-4.c", 1, "rig-4.c.20260101"),
        ("KEYS", "*"),
        ("SCAN", 0),
    ],
    "supervisor": [
        ("SET", "somebody:else", 1),
        ("HGETALL", "session:run"),
        ("PUBLISH", "other", "x"),
        ("SUBSCRIBE", "rtas:state:run"),
        ("KEYS", "*"),
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
def test_keys_of_ones_own_and_of_others(acl_server: server.EmbeddedServer, role: str) -> None:
    """Signed in as a role: what it works with is let through, what is somebody else's is not."""
    with signed_in(acl_server, role) as client:
        assert [command for command in ALLOWED[role] if not is_allowed(client, *command)] == []
        assert [command for command in DENIED[role] if is_allowed(client, *command)] == []


@pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server: apt install redis-server")
def test_the_files_load_on_debians_redis(tmp_path: Path) -> None:
    """A subcommand that a 7.0 server does not know would keep it from starting."""
    (tmp_path / "users.acl").write_text("".join(acl.lines()))
    path = tmp_path / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--aclfile", str(tmp_path / "users.acl")]
    with subprocess.Popen([*command, "--dir", str(tmp_path), "--save", ""], stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: path.exists() or process.poll() is not None, what="redis-server")
            assert process.poll() is None, process.communicate()[0]
            with redis.Redis(unix_socket_path=str(path)) as client:
                assert len(client.acl_users()) == len(acl.lines())
        finally:
            process.terminate()
