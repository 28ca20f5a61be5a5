"""`rta-supervisor doctor`: each fault is made for real, found, and has a remedy."""

import time

import anyio
import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.observe.doctor.findings import Finding
from rta_supervisor.observe.doctor.server_checks import ServerChecks
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_writers.connection import redis_client
from tests.support.commands import run
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def run_doctor(url: str, *options: str, code: int = 0) -> dict[str, Finding]:
    """Findings by check."""
    command = run(url, "doctor", "--json", *options)
    assert (command.code, command.err) == (code, ""), command
    findings = msgspec.convert(msgspec.json.decode(command.out)["findings"], list[Finding])
    assert all(finding.remedy for finding in findings if finding.level != "ok"), "everything that is wrong has a remedy"
    return {finding.check: finding for finding in findings}


def problems(findings: dict[str, Finding]) -> dict[str, str]:
    """Levels by check, of findings that are not ok."""
    return {check: finding.level for check, finding in findings.items() if finding.level != "ok"}


def test_nothing_is_wrong(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """A finding of each check; what the test server lacks on purpose is a warning."""
    sessions.open("run-1", stream="rig")
    findings = run_doctor(url)
    assert problems(findings) == {"memory": "warn", "persistence": "warn"}
    assert len(findings) == 19
    client.config_set("maxmemory", 2**30)
    client.config_set("appendonly", "yes")
    try:
        wait_until(lambda: problems(run_doctor(url)) == {}, what="no problem")
        command = run(url, "doctor")
        assert (command.code, command.err) == (0, "")
        assert len(command.out.splitlines()) == 19
        client.config_set("maxmemory", int(str(client.info("memory")["used_memory"])) + 100_000)
        assert problems(run_doctor(url)) == {"memory": "warn"}
        client.config_set("maxmemory", 1)
        assert problems(run_doctor(url, code=69))["memory"] == "bad"
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("appendonly", "no")


def test_no_redis_and_no_supervisor(url: str) -> None:
    """The exit code is 69, unavailable. Without Redis nothing else is checked."""
    assert problems(run_doctor("unix:///nonexistent/socket", code=69)) == {"reachable": "bad"}
    findings = run_doctor(url, code=69)
    assert {check for check, level in problems(findings).items() if level == "bad"} == {
        "functions", "supervisors", "control streams",
    }  # fmt: skip


def test_an_evicting_server() -> None:
    """The exit code is 78, configuration, and the policy is named. A wrong password is 77."""
    with server.running(options={"maxmemory-policy": "allkeys-lru"}) as evicting:
        finding = run_doctor(evicting.url, code=78)["server"]
        assert "allkeys-lru" in finding.found
        assert "Set it to noeviction" in finding.remedy
        with redis_client.connect(evicting.url) as client:
            client.execute_command("ACL", "SETUSER", "default", "on", "resetpass", ">hush")
        assert problems(run_doctor(evicting.url, code=77)) == {"reachable": "bad"}


def test_leftovers_and_what_nobody_reads(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphaned keys, foreign code, lost data, silent writers, unknown principals, control streams without a reader."""
    for identity in ("lost", "silent"):
        sessions.open(identity, stream="rig")
    client.hset("rtas:st:{sessions:lost}", "lost", 1)
    client.hset("rtas:st:{sessions:ghost}", mapping={"state": "open"})
    client.set("rtas:reply:stale", "x")
    findings = run_doctor(url)
    assert problems(findings) == {"memory": "warn", "persistence": "warn", "sessions": "warn", "orphaned keys": "warn"}
    assert "data lost of lost" in findings["sessions"].found
    orphans = findings["orphaned keys"].found
    assert all(text in orphans for text in ("3: ", "rtas:st:{sessions:ghost}", "rtas:reply:stale"))
    assert "not at all of them" in run_doctor(url, "--scan-keys", "0")["orphaned keys"].found
    client.unlink("rtas:st:{sessions:ghost}", "rtas:reply:stale")
    client.hdel("rtas:st:{sessions:lost}", "lost")
    client.zadd("rtas:idx", {"silent": 1})
    assert "nothing was heard of silent" in run_doctor(url)["sessions"].found
    client.function_load(
        "#!lua name=rtas_reply_1\nredis.register_function('rtas_reply_1', function() end)", replace=True
    )
    assert "rtas_reply_1" in run_doctor(url)["functions"].found
    monkeypatch.setenv("RTA_CONTROL__PRINCIPALS", '["team-b"]')
    findings = run_doctor(url, code=78)
    assert "rtas:req:team-b" in findings["control streams"].found
    assert "unknown principals of" in findings["sessions"].found


def test_a_supervisor_that_hangs(client: redis.Redis, url: str, supervisor: Supervisor) -> None:
    """Messages that wait for too long are bad; dead letters and another version are a warning."""
    supervisor.kill()
    client.xadd("rtas:ctl:default", {"m": b"x"}, id="1000-1")
    for source in ("rtas:ctl:rig-4", "rtas:ctl:rig-5", "rtas:ctl:rig-4"):
        client.xadd("rtas:dlq", {"m": b"x", "source": source})
    [node] = (raw.decode() for raw in client.zrange("rtas:nodes", 0, -1))  # type: ignore[union-attr]
    client.hset(f"rtas:node:{node}", "version", "0.0.9")
    findings = run_doctor(url, code=69)
    assert problems(findings) == {
        "memory": "warn", "persistence": "warn",
        "supervisors": "warn", "control streams": "bad", "dead letters": "warn",
    }  # fmt: skip
    assert "1 messages waiting" in findings["control streams"].found
    assert findings["dead letters"].found == "3; of the latest 3: 2 from rtas:ctl:rig-4, 1 from rtas:ctl:rig-5"


def test_a_user_with_few_permissions(
    client: redis.Redis,
    shared_server: server.EmbeddedServer,
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check that the user may not make is a warning, and the others go on; what an operator needs is named."""
    client.execute_command(
        "ACL", "SETUSER", "guest", "on", ">hush", "~*", "&*", "+@read", "+@connection", "+info", "+acl"
    )
    try:
        monkeypatch.setenv("RTA_REDIS__URL", f"unix://guest:hush@{shared_server.socket_path}")
        findings = run_doctor("")
    finally:
        client.execute_command("ACL", "DELUSER", "guest")
    assert "guest may not: XADD rtas:req:operator" in findings["permissions"].found
    assert "can't be looked at" in findings["functions"].found
    assert "hush" not in str(findings)
    assert supervisor.process.poll() is None


@pytest.mark.parametrize(("ahead_ms", "level"), [(0, "ok"), (-1500, "warn"), (40_000, "bad")])
def test_clocks_that_differ(url: str, ahead_ms: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is ahead of this host or behind it: the level depends on how much. The clock of this host is moved."""
    real_ns = time.time_ns
    monkeypatch.setattr("rta_supervisor.observe.queries.time.time_ns", lambda: real_ns() - ahead_ms * 1_000_000)

    async def check_clock() -> Finding:
        config = settings.Settings(redis=settings.RedisSettings(url=url))
        link = Link(config.redis)
        try:
            return await ServerChecks(link, config).clock()
        finally:
            await link.close()

    assert anyio.run(check_clock).level == level


def test_what_other_producers_have_is_listed(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their streams with their memory, the largest first, and their sessions; and what becomes of them."""
    sessions.open("run-1", stream="rig")
    assert run_doctor(url)["other producers"].found.startswith("none; ")
    client.xadd("stream:unheard-of", {"id": "1", "data": b"x" * 2_000_000})
    client.expire("stream:unheard-of", 100)
    finding = run_doctor(url)["other producers"]
    assert finding.found.startswith("1 streams that `streams` does not list, 1.9 MiB: unheard-of; ")
    assert finding.remedy.endswith("Once nobody appends to it: rta-supervisor doctor --repair 'stream:unheard-of'")
    client.delete("stream:unheard-of")
    for number in range(5):
        client.xadd(f"stream:theirs-{number}", {"id": "1", "data": b"x" * 300_000 * (number + 1)})
        client.sadd("streams", f"theirs-{number}")
    client.hset("sessions:foreign", mapping={"streamSessionId": "1", "streamName": "theirs-1", "lastUpdated": "1"})
    client.expire("sessions:foreign", 100)
    finding = run_doctor(url)["other producers"]
    assert finding.level == "ok"
    assert "5 streams, 4.3 MiB: theirs-4, theirs-3, theirs-2 and 2 more; 1 sessions: foreign; " in finding.found
    assert "left alone (other_producers.trim_streams)" in finding.remedy
    monkeypatch.setenv("RTA_OTHER_PRODUCERS__TRIM_STREAMS", "true")
    monkeypatch.setenv("RTA_OTHER_PRODUCERS__REMOVE_SESSIONS_AFTER_S", "3600")
    remedy = run_doctor(url)["other producers"].remedy
    assert (
        "Their streams are trimmed as [trim] says, their sessions removed once nothing changed for 3,600 s." in remedy
    )
