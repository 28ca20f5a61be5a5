"""`rta-supervisor doctor`: each fault is made for real, found, and comes with what to do."""

import time

import anyio
import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.observe.findings import Finding
from rta_supervisor.observe.server_checks import ServerChecks
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_writers.connection import redis_client
from tests.support.commands import run
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def findings(url: str, *words: str, code: int = 0) -> dict[str, Finding]:
    ran = run(url, "doctor", "--json", *words)
    assert (ran.code, ran.err) == (code, ""), ran
    found = msgspec.convert(msgspec.json.decode(ran.out)["findings"], list[Finding])
    assert all(one.remedy for one in found if one.level != "ok"), "everything that is wrong has a remedy"
    return {one.check: one for one in found}


def levels(found: dict[str, Finding]) -> dict[str, str]:
    return {name: one.level for name, one in found.items() if one.level != "ok"}


def test_nothing_is_wrong(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """All checks on one page; what the test server lacks on purpose is a warning."""
    sessions.open("run-1", stream="rig")
    found = findings(url)
    assert levels(found) == {"memory": "warn", "persistence": "warn"}
    assert len(found) == 13
    client.config_set("maxmemory", 2**30)
    client.config_set("appendonly", "yes")
    try:
        wait_until(lambda: levels(findings(url)) == {}, what="a clean bill of health")
        page = run(url, "doctor")
        assert (page.code, page.err) == (0, "")
        assert len(page.out.splitlines()) == 13
        client.config_set("maxmemory", int(str(client.info("memory")["used_memory"])) + 100_000)
        assert levels(findings(url)) == {"memory": "warn"}
        client.config_set("maxmemory", 1)
        assert levels(findings(url, code=69))["memory"] == "bad"
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("appendonly", "no")


def test_no_redis_and_no_supervisor(url: str) -> None:
    """Unavailable: 69. Without Redis there is nothing else to look at."""
    assert levels(findings("unix:///nonexistent/socket", code=69)) == {"reachable": "bad"}
    found = findings(url, code=69)
    assert {name for name, level in levels(found).items() if level == "bad"} == {
        "functions", "supervisors", "control streams",
    }  # fmt: skip


def test_an_evicting_server(url: str) -> None:
    """Configuration: 78, with the policy by name."""
    with server.running(options={"maxmemory-policy": "allkeys-lru"}) as evicting:
        found = findings(evicting.url, code=78)["server"]
        assert "allkeys-lru" in found.found
        assert "Set it to noeviction" in found.remedy
        with redis_client.connect(evicting.url) as client:
            client.execute_command("ACL", "SETUSER", "default", "on", "resetpass", ">hush")
        assert levels(findings(evicting.url, code=77)) == {"reachable": "bad"}
    assert url


def test_what_is_stuck_or_left_over(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphaned keys, foreign code, lost data, silent writers, strange principals, lanes that nobody reads."""
    for name in ("lost", "silent"):
        sessions.open(name, stream="rig")
    client.hset("rtas:st:{sessions:lost}", "lost", 1)
    client.hset("rtas:st:{sessions:ghost}", mapping={"state": "open"})
    client.set("rtas:reply:stale", "x")
    found = findings(url)
    assert levels(found) == {"memory": "warn", "persistence": "warn", "sessions": "warn", "orphaned keys": "warn"}
    assert "data lost of lost" in found["sessions"].found
    orphans = found["orphaned keys"].found
    assert all(name in orphans for name in ("3: ", "rtas:st:{sessions:ghost}", "rtas:reply:stale"))
    assert "not at all of them" in findings(url, "--scan-keys", "0")["orphaned keys"].found
    client.unlink("rtas:st:{sessions:ghost}", "rtas:reply:stale")
    client.hdel("rtas:st:{sessions:lost}", "lost")
    client.zadd("rtas:idx", {"silent": 1})
    assert "nothing was heard of silent" in findings(url)["sessions"].found
    client.function_load(
        "#!lua name=rtas_reply_1\nredis.register_function('rtas_reply_1', function() end)", replace=True
    )
    assert "rtas_reply_1" in findings(url)["functions"].found
    monkeypatch.setenv("RTA_CONTROL__PRINCIPALS", '["team-b"]')
    found = findings(url, code=78)
    assert "rtas:req:team-b" in found["control streams"].found
    assert "unknown principals of" in found["sessions"].found


def test_a_supervisor_that_hangs(client: redis.Redis, url: str, supervisor: Supervisor) -> None:
    """Messages that wait for too long are bad, dead letters and another version a warning."""
    supervisor.kill()
    client.xadd("rtas:ctl:default", {"m": b"x"}, id="1000-1")
    client.xadd("rtas:dlq", {"m": b"x"})
    [node] = (raw.decode() for raw in client.zrange("rtas:nodes", 0, -1))  # type: ignore[union-attr]
    client.hset(f"rtas:node:{node}", "version", "0.0.9")
    found = findings(url, code=69)
    assert levels(found) == {
        "memory": "warn", "persistence": "warn",
        "supervisors": "warn", "control streams": "bad", "dead letters": "warn",
    }  # fmt: skip
    assert "1 messages waiting" in found["control streams"].found


def test_a_user_who_may_little(
    client: redis.Redis,
    shared_server: server.EmbeddedServer,
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What can't be looked at is a warning, not the end; what an operator could not do is named."""
    client.execute_command(
        "ACL", "SETUSER", "guest", "on", ">hush", "~*", "&*", "+@read", "+@connection", "+info", "+acl"
    )
    try:
        monkeypatch.setenv("RTA_REDIS__URL", f"unix://guest:hush@{shared_server.socket_path}")
        found = findings("")
    finally:
        client.execute_command("ACL", "DELUSER", "guest")
    assert "guest may not: XADD rtas:req:operator" in found["permissions"].found
    assert "can't be looked at" in found["functions"].found
    assert "hush" not in str(found)
    assert supervisor.process.poll() is None


@pytest.mark.parametrize(("ahead_ms", "level"), [(0, "ok"), (-1500, "warn"), (40_000, "bad")])
def test_clocks_that_differ(url: str, ahead_ms: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis ahead of us or behind: judged by how much. Our clock is the one that is moved."""
    real_ns = time.time_ns
    monkeypatch.setattr("rta_supervisor.observe.queries.time.time_ns", lambda: real_ns() - ahead_ms * 1_000_000)

    async def look() -> Finding:
        config = settings.Settings(redis=settings.RedisSettings(url=url))
        link = Link(config.redis)
        try:
            return await ServerChecks(link, config).clock()
        finally:
            await link.close()

    assert anyio.run(look).level == level
