"""A whole day of daemon, writer and reader under the ACLs of conf/acl: they work, and no rule is unused."""

import contextlib
import threading
from pathlib import Path

import anyio
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, keys
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from rta_writers.control import configs
from rta_writers.options import read as options_read
from rta_writers.read import batches
from rta_writers.read import plan as read_plan
from tests.support import acl, command_recorder, samples, supervisors
from tests.support.acl import ROLES, WITHOUT_LEAVE, WRITER
from tests.support.day_streams import fill, traces
from tests.support.waiting import wait_until


class Stage:
    """A server with users, and a way in for each role that writes down what it asks for."""

    def __init__(self, acl_server: server.EmbeddedServer, stack: contextlib.ExitStack) -> None:
        path = str(acl_server.socket_path)
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
    "RTA_TRIM__ENTRY_S": "0",
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

ON_OTHER_DAYS = {"supervisor": {"hdel", "hsetnx", "zrevrange", "smembers"}, acl.WRITER: {"exists", "ping"}}
"""What webhooks and the live page need on top, and writers of 0.1.0."""

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
        sessions.update("run", details={"large": "x" * 300_000})
        assert sessions.get("run").json == sessions.get(external_id="mine").json
        assert sessions.list()[0].identity == "run"
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
    request_id = messages.new_request_id()
    sessions.close("brief", request_id=request_id)
    with pytest.raises(errors.RequestAnswered):
        sessions.cancel(request_id)


def read(url: str) -> None:
    """A reader's: the list of streams, a session's hash, its entries, the same as columns, a configuration."""
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
        for selection in ({"session": "run"}, {"stream": "rig-4.a"}):
            options = options_read.ReadOptions.parse({"redisUrl": url, "failOnDataLoss": "false", **selection})
            for entry_range in read_plan.plan_batch(client, options):
                list(batches.read_batches(options, entry_range, batches.RowFilter()))
        with pytest.raises(errors.UnknownConfig):
            configs.fetch(client, keys.Keys(), "0" * 64)


async def look_for_functions(url: str) -> None:
    """What a supervisor does where it is started on a full server."""
    link = Link(settings.RedisSettings(url=url))
    assert await function_loader.are_loaded(link)
    await link.close()


def test_a_day_under_these_acls(tmp_path: Path) -> None:
    """The real daemon, writer and reader work with what the files give them, and use all of it: none is too many."""
    with contextlib.ExitStack() as stack:
        acl_server = stack.enter_context(acl.running())
        admin = stack.enter_context(
            redis.Redis(unix_socket_path=str(acl_server.socket_path), decode_responses=True, protocol=2)
        )
        stage = Stage(acl_server, stack)
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
            granted, used = acl.granted(admin, role), stage.seen(role)
            assert (role, granted - used - ON_OTHER_DAYS.get(role, set()), used - granted) == (role, set(), set())
