"""A writer that means harm, with the rights that conf/acl gives it: it hurts itself, and nobody else."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire import entry_ids, errors
from rta_writers.connection import redis_client
from tests.support import acl, control, supervisors
from tests.support.waiting import wait_until

HIGHEST = entry_ids.MAX


def spoil(client: redis.Redis, number: int) -> None:
    """Everything that a writer can do to its own keys."""
    marks = f"rtas:dd:{{stream:rig-5.a}}:{number}"
    for unit, mark in {
        "u": "junk",
        b"\xff": "0 1 1 1 1 1 1 1",
        "few": "0 1",
        "huge": f"0 1 {10**60} 1 1 1 1 1",
        "many": "0 1 " + "9" * 5000,
        "late": f"0 1 1 1 1 1 {10**40} {10**40}",
        "sum": f"0 1 {2**63} {2**63} {2**63} {2**63} 1 1",
        "below": "0 1 -1 -1 -1 -1 1 1",
    }.items():
        client.hset(marks, unit, mark)  # type: ignore[arg-type]
    for raw in (b"", b"\xff" * 1000, bytes(300_000), b"\x0a" * 1000):
        client.xadd("rtas:ctl:rig-5", {"m": raw})
        client.xadd("rtas:req:rig-5", {"m": raw})
    client.xadd("rtas:ctl:rig-5", {"other": "x"})
    client.xadd("stream:rig-5.a", {"id": "9" * 400, "data": b"\xff"})
    client.xadd("stream:rig-5.a", {"id": str(2**63 - 1), "data": b"\xff"}, id=HIGHEST)


def test_a_hostile_writer_hurts_only_itself(tmp_path: Path) -> None:
    """Marks, messages and entries that make no sense: the supervisor goes on, starts again, and serves the others."""
    with contextlib.ExitStack() as stack:
        acl_server = stack.enter_context(acl.running())
        admin = stack.enter_context(redis_client.connect(acl_server.url))
        urls = {name: f"unix://writer-{name}:{acl.PASSWORD}@{acl_server.socket_path}" for name in acl.PRINCIPALS}
        environment = {
            "RTA_REDIS__URL": f"unix://supervisor:{acl.PASSWORD}@{acl_server.socket_path}",
            "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite"),
            "RTA_CONTROL__PRINCIPALS": '["rig-4", "rig-5"]',
            "RTA_SESSION__WRITER_SILENT_S": "2",
            "RTA_TRIM__EVERY_S": "0.2",
        }
        good = rta_writers.SessionClient(urls["rig-4"], principal="rig-4", timeout_s=20)
        bad = rta_writers.SessionClient(urls["rig-5"], principal="rig-5", timeout_s=20)
        writer = stack.enter_context(redis_client.connect(urls["rig-5"]))
        with supervisors.running("", environment) as first:
            victim = bad.open("bad", stream="rig-5.a")
            control.write(writer, victim, 3, report=False)
            spoil(writer, victim.target.stream_session_id)
            wait_until(lambda: len(control.dead_letters(admin)) >= 8, what="dead letters")
            wait_until(lambda: first.events("writer_silent"), what="a look at the session")
            wait_until(lambda: first.events("session_closed"), what="a session that is ended in spite of it")
            assert first.events("session_spoilt")
            assert first.events("marks_unreadable")
            serve(good, admin, "one")
            assert first.process.poll() is None
            first.kill()
        writer.set("rtas:dd:{stream:rig-5.b}:9", "not a hash", ex=60)
        with supervisors.running("", environment) as second:
            serve(good, admin, "two")
            with pytest.raises(errors.RtaError):
                bad.open("more", stream="rig-5.a")
            serve(good, admin, "three")
            assert second.process.poll() is None


def serve(sessions: rta_writers.SessionClient, admin: redis.Redis, identity: str) -> None:
    """A session of somebody else, from its beginning to its end."""
    with sessions.open(identity, stream="rig-4.a") as session, redis_client.connect(sessions.url) as client:
        control.write(client, session, 5, report=False)
    assert session.ended is not None
    assert (session.ended.state, session.ended.totals.samples) == ("closed", 5)
    number: Any = admin.get("lastStreamSessionId")
    assert int(number) < 1000
