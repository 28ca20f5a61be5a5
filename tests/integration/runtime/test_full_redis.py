"""Redis full, slow and away: writers wait and go on, the supervisor makes room, and both log that once and not every
time.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors
from rta_writers.connection import redis_client, retry
from tests.support import control, samples, supervisors
from tests.support.waiting import wait_until

SILENT_S = 3
WATCHING = {"RTA_SESSION__WRITER_SILENT_S": str(SILENT_S), "RTA_NODE__TTL_S": "2", "RTA_NODE__RENEW_S": "0.3"}
TRIMMING = {"RTA_TRIM__EVERY_S": "0.1", "RTA_TRIM__MAX_ENTRIES": "50", "RTA_TRIM__MIN_RETENTION_S": "0.2"}


@contextlib.contextmanager
def full(client: redis.Redis) -> Iterator[None]:
    """No room for the length of the block."""
    client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + count)
    times = [samples.START_NS + n for n in numbers]
    return pa.record_batch({"channel": [1] * count, "time": times, "value": [float(n) for n in numbers]})


def silent_s(client: redis.Redis, identity: str) -> float:
    heard_ms: Any = client.zscore("rtas:idx", identity)
    return time.time() - float(heard_ms) / 1000


def length(client: redis.Redis, stream: str) -> int:
    entries: Any = client.xlen(stream)
    return int(entries)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "rta_writers"]


def test_a_writer_waits_for_room_and_goes_on(
    client: redis.Redis, sessions: rta_writers.SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It says why it waits once and that it goes on once, and every row stands there once."""
    with sessions.open("run", stream="rig") as session:
        writer = rta_writers.BurstWriter(session.options, unit="u")
        writer.write(rows(10))
        writer.flush()
        with caplog.at_level(logging.WARNING, "rta_writers"):
            client.config_set("maxmemory", 1)
            room = threading.Timer(0.8, client.config_set, ("maxmemory", 0))
            room.start()
            writer.write(rows(10, first=10))
            writer.flush()
            room.join()
        writer.close()
    assert [value for _, _, value in samples.rows(client, "rig")] == [float(n) for n in range(20)]
    waiting, going_on = said(caplog)
    assert "it is full (OOM" in waiting
    assert "at most 120 s" in waiting
    assert "going on after" in going_on


def test_a_request_waits_for_room(
    client: redis.Redis, sessions: rta_writers.SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening is tried again until there is room, and ends in its own error where there is none."""
    client.config_set("maxmemory", 1)
    room = threading.Timer(0.5, client.config_set, ("maxmemory", 0))
    room.start()
    sessions.open("run", stream="rig").close()
    room.join()
    assert "it is full" in said(caplog)[0]
    hasty = rta_writers.SessionClient(sessions.url, timeout_s=0.3)
    with full(client), pytest.raises(errors.RedisFull):
        hasty.open("other", stream="rig")


def test_what_will_never_work_fails_at_once(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A key of a wrong type is no reason to wait."""
    session = sessions.open("run", stream="rig")
    client.set("rtas:dd:{stream:rig}:1", "junk", ex=60)
    started_s = time.monotonic()
    with pytest.raises(errors.RedisRefused, match="WRONGTYPE"):
        control.write(client, session, 1)
    assert time.monotonic() - started_s < retry.OUTAGE_TIMEOUT_S / 2
    client.unlink("rtas:dd:{stream:rig}:1")
    session.close()


def test_a_full_redis_is_trimmed_and_sessions_stay(url: str, client: redis.Redis) -> None:
    """The supervisor makes room, keeps its registration and everybody's session, and logs a line now and then."""
    with supervisors.running(url, {**WATCHING, **TRIMMING}) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        session = sessions.open("run", stream="rig")
        control.write(client, session, 300)
        before: Any = client.memory_usage("stream:rig")
        with full(client):
            wait_until(lambda: length(client, "stream:rig") < 200, what="a stream that was trimmed")
            wait_until(lambda: length(client, "rtas:ctl:default") == 0, what="reports that were taken")
            wait_until(lambda: supervisor.events("redis_full"), what="a line in the log")
            wait_until(lambda: silent_s(client, "run") > SILENT_S + 1, what="a writer that could say nothing for long")
            assert sessions._requests.supervisors.check()
            assert control.fields(client, "run")
        after: Any = client.memory_usage("stream:rig")
        assert after < before
        wait_until(lambda: supervisor.events("redis_back"), what="the end of it in the log")
        assert control.document(client, "run")["state"] == "open"
        assert not supervisor.events("writer_silent")
        assert len(supervisor.events("redis_full")) == 1
        assert not supervisor.events("redis_unavailable")
        session.close()


def test_a_start_makes_room(url: str, client: redis.Redis) -> None:
    """A supervisor that is started while Redis is full trims first, and serves as soon as there is room."""
    with supervisors.running(url) as first:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        session = sessions.open("run", stream="rig")
        session.close()
        first.stop()
    for _ in range(400):
        client.xadd("stream:rig", {"id": 1, "data": os.urandom(20_000)})
    used: Any = client.info("memory")["used_memory"]
    size: Any = client.memory_usage("stream:rig")
    client.config_set("maxmemory", used - size // 2)
    try:
        with supervisors.running(url, {"RTA_TRIM__MAX_ENTRIES": "50"}) as second:
            assert second.events("redis_full")
            assert length(client, "stream:rig") < 200
            sessions.open("next", stream="rig").close()
    finally:
        client.config_set("maxmemory", 0)


def test_a_slow_and_an_absent_redis_are_borne(caplog: pytest.LogCaptureFixture) -> None:
    """Answers that come too late, and none at all: one line each from writer and supervisor, and nothing lost."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(server.running())
        client = stack.enter_context(redis_client.connect(running.url))
        supervisor = stack.enter_context(supervisors.running(running.url, {"RTA_REDIS__TIMEOUT_S": "1.1"}))
        sessions = rta_writers.SessionClient(running.url, timeout_s=30)
        session = sessions.open("run", stream="rig")
        writer = rta_writers.BurstWriter(session.options, unit="u")
        writer.write(rows(10))
        writer.flush()
        with caplog.at_level(logging.WARNING, "rta_writers"):
            os.kill(running.pid, signal.SIGSTOP)
            awake = threading.Timer(6.5, os.kill, (running.pid, signal.SIGCONT))
            awake.start()
            writer.write(rows(10, first=10))
            writer.flush()
            awake.join()
        writer.close()
        session.close()
        wait_until(lambda: supervisor.events("redis_back"), what="a supervisor that goes on")
        assert 1 <= len(supervisor.events("redis_unavailable")) <= 2
        assert [value for _, _, value in samples.rows(client, "rig")] == [float(n) for n in range(20)]
    waiting, going_on = said(caplog)
    assert "it did not answer in time (TIMEOUT" in waiting
    assert "going on after" in going_on


def test_many_failures_are_one_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is tried, and a URL is shown without its password."""
    monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.4)
    borne = retry.RetryPolicy("redis://me:secret@127.0.0.1:1")

    def try_for_ever() -> None:
        while True:
            borne.wait(redis.exceptions.ConnectionError("Connection closed by server."))

    with caplog.at_level(logging.WARNING, "rta_writers"), pytest.raises(errors.RedisUnreachable) as caught:
        try_for_ever()
    assert len(said(caplog)) == 1
    assert "secret" not in said(caplog)[0] + str(caught.value)
