"""`status`, `streams` and `nodes` against the keys in Redis."""

import redis

import rta_writers
from rta_supervisor.cli.commands import status as commands_status
from rta_supervisor.observe import summaries
from rta_wire.pb import control_pb2
from tests.support.commands import convert, run
from tests.support.control import dead_letters, folded, send, write
from tests.support.waiting import wait_until


def test_status_counts_what_there_is(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Sessions by state, streams, messages and dead letters, for people and for scripts."""
    first, second = sessions.open("run-1", stream="rig"), sessions.open("run-2", stream="other")
    write(client, first, 3)
    second.pause()
    send(client, control_pb2.Heartbeat(identity="nobody", stream_session_id=99))
    wait_until(lambda: dead_letters(client), what="a dead letter")
    status = convert(run(url, "status", "--json").json(), commands_status.DeploymentStatus)
    assert status.sessions == {"open": 1, "waiting": 1}
    assert (status.streams, status.dead_letters, len(status.nodes)) == (2, 1, 1)
    assert status.stream_entries == sum(client.xlen(f"stream:{name}") for name in ("rig", "other"))
    assert {stream.key for stream in status.lanes} == {"rtas:req:default", "rtas:req:operator", "rtas:ctl:default"}
    page = run(url, "status").out
    assert "1 open, 1 waiting" in page
    assert "1: see rta-supervisor dlq list" in page


def test_streams_and_nodes_print_what_redis_has(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """Entries, memory and open sessions of a stream, and the process of a node."""
    opened = [sessions.open(f"run-{number}", stream="rig") for number in (1, 2, 3)]
    write(client, opened[0], 5)
    wait_until(lambda: folded(client, "run-1").samples == 5, what="the totals")
    [stream] = convert(run(url, "streams", "--json").json()["streams"], list[summaries.StreamSummary])
    assert (stream.stream, stream.entries, stream.open_sessions) == ("rig", client.xlen("stream:rig"), 3)
    assert stream.memory_bytes == client.memory_usage("stream:rig", samples=100)
    [node] = convert(run(url, "nodes", "--json").json()["nodes"], list[summaries.NodeSummary])
    assert client.hget(f"rtas:node:{node.node}", "pid") == str(node.pid).encode()
    assert "rig" in run(url, "streams").out
    assert node.node in run(url, "nodes").out
