"""A connection to Redis that breaks at any step of a call: the call goes on, and where Redis stays away it says so."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors
from rta_wire.pb import control_pb2
from rta_writers.options.read import ReadOptions
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader
from rta_writers.write import commit
from tests.integration.writers.tasks import long, run, write
from tests.support import proxy, supervisors

NOBODY = "redis://127.0.0.1:1"
CALLS: dict[str, Callable[[rta_writers.SessionClient], Any]] = {
    "get": lambda client: client.get("run"),
    "list": lambda client: client.list(),
    "open with large JSON": lambda client: client.open("run", stream="rig", details={"notes": "x" * 300_000}),
    "wait": lambda client: client.wait("run", timeout_s=0.1),
    "sessions": lambda client: rta_writers.sessions(client, stream="rig"),
    "report": lambda client: client.report(control_pb2.Heartbeat(identity="run", stream_session_id=1)),
}


@pytest.fixture
def broken(shared_server: server.EmbeddedServer) -> Iterator[proxy.Proxy]:
    """A way to the server that loses replies."""
    with proxy.between(str(shared_server.socket_path)) as between:
        yield between


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_redis_that_stays_away_is_named(call: Callable[[rta_writers.SessionClient], Any]) -> None:
    """No call ends with an error of redis-py, nor with one about something else."""
    with pytest.raises(errors.RedisUnreachable, match=NOBODY):
        call(rta_writers.SessionClient(NOBODY, timeout_s=0.1))


def test_no_step_of_a_job_fails_by_a_lost_connection(
    url: str, broken: proxy.Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """Looking at sessions, the notes of a task, the comparison of its commit, and the end of its group: a reply that
    is lost is asked for again, and the sessions of a good job are closed."""
    with supervisors.running(url), caplog.at_level(logging.WARNING, logger="rta_writers"):
        sessions = rta_writers.SessionClient(broken.url)
        with rta_writers.sessions(sessions, stream="rig") as group:
            for command in (b"SADD", b"HGETALL", b"SMEMBERS"):
                settings = WriteOptions.parse(group.options | {"job": command.decode()})
                broken.swallow_reply_to(command)
                commit.commit(settings, [run(settings, long(9, session=True), unit=f"{command.decode()}/0")], epoch=0)
            for command in (b"ZRANGE", b"HMGET"):
                broken.swallow_reply_to(command)
                assert sessions.get("car-1").stream == "rig"
            broken.swallow_reply_to(b"SMEMBERS")
        assert broken.swallowed == 6
        assert caplog.text.count("going on after") == broken.swallowed
        assert {identity: ended.state for identity, ended in group.ended.items()} == {
            f"car-{number}": "closed" for number in range(3)
        }


def test_a_read_goes_on(broken: proxy.Proxy, target: Target) -> None:
    """A query that runs asks again what there is, and a task for the entries that it reads."""
    write(target, long(9))
    options = ReadOptions.parse({"redisUrl": broken.url, "stream": "rig"})
    reader = stream_reader.StreamReader(options, spark_reader.spark_schema(options))
    start = reader.initialOffset()
    broken.swallow_reply_to(b"XINFO")
    end = reader.latestOffset(start)
    broken.swallow_reply_to(b"ZRANGE")
    [partition] = reader.partitions(start, end)
    broken.swallow_reply_to(b"XRANGE")
    assert sum(batch.num_rows for batch in reader.read(partition)) == 9
    assert broken.swallowed == 3
