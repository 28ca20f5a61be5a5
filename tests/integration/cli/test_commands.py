"""Commands of an operator against a real server and a real supervisor: what they print, what they change."""

import pytest
import redis

import rta_writers
from rta_supervisor.cli.commands import status as commands_status
from rta_supervisor.cli.sessions import end as sessions_end
from rta_supervisor.cli.sessions import show as sessions_show
from rta_supervisor.observe import summaries
from rta_wire import errors
from rta_wire.pb import control_pb2
from tests.support import clusters, samples, supervisors
from tests.support.commands import convert, refused, rows, run
from tests.support.control import dead_letters, document, folded, send, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

NOWHERE = "unix:///nonexistent/socket"


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["nodes"],
        ["streams"],
        ["sessions", "list"],
        ["sessions", "show", "run-1"],
        ["sessions", "close", "run-1", "--yes"],
        ["sessions", "abandon", "run-1", "--yes"],
        ["sessions", "resurrect", "run-1"],
        ["tail", "run-1"],
        ["top"],
        ["dlq", "list"],
        ["dlq", "show", "1-1"],
        ["dlq", "retry", "1-1"],
        ["dlq", "drop", "1-1", "--yes"],
    ],
)
def test_a_redis_that_is_away_is_a_sentence(words: list[str]) -> None:
    """Every command ends with 69 and says where it looked."""
    refused(run(NOWHERE, *words), 69, f"No Redis answers at {NOWHERE}")


def test_without_a_supervisor_status_and_nodes_say_so(url: str) -> None:
    """Redis answers and nobody serves: what there is is shown, and the exit code is 69."""
    for words in (["status"], ["nodes"]):
        refused(run(url, *words), 69, "No supervisor is running")
    assert "none is running" in run(url, "status").out
    assert run(url, "sessions", "list", "--json").json() == {"sessions": [], "total": 0}


def test_status_counts_what_there_is(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Sessions by state, streams, messages and dead letters, for people and for scripts."""
    first, second = sessions.open("run-1", stream="rig"), sessions.open("run-2", stream="other")
    write(client, first, 3)
    second.pause()
    send(client, control_pb2.Heartbeat(identity="nobody", stream_session_id=99))
    wait_until(lambda: dead_letters(client), what="a dead letter")
    found = convert(run(url, "status", "--json").json(), commands_status.DeploymentStatus)
    assert found.sessions == {"open": 1, "waiting": 1}
    assert (found.streams, found.dead_letters, len(found.nodes)) == (2, 1, 1)
    assert found.stream_entries == sum(client.xlen(f"stream:{name}") for name in ("rig", "other"))
    assert {lane.key for lane in found.lanes} == {"rtas:req:default", "rtas:req:operator", "rtas:ctl:default"}
    page = run(url, "status").out
    assert "1 open, 1 waiting" in page
    assert "1: see rta-supervisor dlq list" in page


def test_lists_say_what_stands_in_redis(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Sessions, streams and nodes, against the keys themselves."""
    opened = [sessions.open(f"run-{number}", stream="rig") for number in (1, 2, 3)]
    write(client, opened[0], 5)
    wait_until(lambda: folded(client, "run-1").samples == 5, what="the totals")
    listed = run(url, "sessions", "list", "--json").json()
    lines = convert(listed["sessions"], list[summaries.SessionSummary])
    assert listed["total"] == 3
    by_identity = {line.identity: line for line in lines}
    assert by_identity.keys() == {"run-1", "run-2", "run-3"}
    one = by_identity["run-1"]
    assert (one.samples, one.start_ns, one.end_ns) == (5, samples.START_NS, samples.START_NS + 4)
    assert one.heard_ms == client.zscore("rtas:idx", "run-1")
    assert str(one.stream_session_id).encode() == client.hget("sessions:run-1", "streamSessionId")
    table = run(url, "sessions", "list", "--limit", "1")
    assert "2 more: --limit 0 shows all" in table.out
    assert run(url, "sessions", "list", "--state", "waiting", "--json").json()["total"] == 0
    assert run(url, "sessions", "list", "--stream", "rig", "--json").json()["total"] == 3
    [stream] = convert(run(url, "streams", "--json").json()["streams"], list[summaries.StreamSummary])
    assert (stream.stream, stream.entries, stream.open_sessions) == ("rig", client.xlen("stream:rig"), 3)
    assert stream.memory_bytes == client.memory_usage("stream:rig")
    [node] = convert(run(url, "nodes", "--json").json()["nodes"], list[summaries.NodeSummary])
    assert client.hget(f"rtas:node:{node.node}", "pid") == str(node.pid).encode()
    assert "rig" in run(url, "streams").out
    assert node.node in run(url, "nodes").out


def test_one_session_in_full(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Its JSON as readers have it, its units, and nothing that a terminal would obey."""
    opened = sessions.open("run-1", stream="rig", identifier="Run \x1b[31m1\u202e", details={"Rig": 4})
    write(client, opened, 2, unit="left")
    write(client, opened, 3, unit="right")
    wait_until(lambda: folded(client, "run-1").samples == 5, what="the totals")
    found = run(url, "sessions", "show", "run-1", "--json").json()
    assert found.keys() == set(sessions_fields())
    assert found["document"] == document(client, "run-1")
    assert {unit: totals["samples"] for unit, totals in found["units"].items()} == {"left": 2, "right": 3}
    page = run(url, "sessions", "show", "run-1").out
    assert "Run \\x1b[31m1\\u202e" in page
    assert not any(one in page for one in "\x1b\u202e")
    opened.close()
    wait_until(lambda: client.zscore("rtas:idx", "run-1") is None, what="the end of the session")
    assert run(url, "sessions", "show", "run-1", "--json").json()["session"]["heard_ms"] is None
    assert "put away" in run(url, "sessions", "show", "run-1").out


def sessions_fields() -> tuple[str, ...]:
    return sessions_show.SessionDetails.__struct_fields__


@pytest.mark.parametrize(
    "words", [["sessions", "show", "run-71"], ["sessions", "close", "run-71", "--yes"], ["tail", "run-71"]]
)
def test_an_unknown_session_is_named_with_the_nearest(
    url: str, sessions: rta_writers.SessionClient, words: list[str]
) -> None:
    """66, and the name that was probably meant."""
    sessions.open("run-17", stream="rig")
    sessions.open("other", stream="rig")
    refused(run(url, *words), 66, "There is no session 'run-71'; the nearest is 'run-17'")


def test_an_operator_ends_sessions_of_anybody(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, supervisor: Supervisor
) -> None:
    """Through the lane of requests, with a name of its own in the log; closed stays closed."""
    opened = [sessions.open(f"run-{number}", stream="rig") for number in (1, 2, 3)]
    write(client, opened[0], 3)
    refused(run(url, "sessions", "close", "run-1"), 64, "say --yes")
    refused(run(url, "sessions", "close", "run-1", "run-9", "--yes"), 66, "'run-9'")
    assert document(client, "run-1")["state"] == "open"
    answer = run(url, "sessions", "close", "run-1", "--yes", "--json").json()
    [closed] = convert(answer["sessions"], list[sessions_end.EndedSession])
    assert closed == sessions_end.EndedSession("run-1", "closed", was_closed=False, samples=3)
    assert document(client, "run-1")["state"] == "closed"
    with pytest.raises(errors.SessionClosed):
        write(client, opened[0], 5)
    assert "run-2 ended: abandoned" in run(url, "sessions", "abandon", "run-2", "--yes").out
    assert "run-3 ended: failed" in run(url, "sessions", "close", "run-3", "--state", "failed", "--yes").out
    assert "run-1 was closed before: closed" in run(url, "sessions", "abandon", "run-1", "--yes").out
    ended = {event["session"]: event for event in supervisor.events("session_closed")}
    assert [ended[name].get("by") for name in ("run-1", "run-2", "run-3")] == ["operator"] * 3


def test_an_operator_may_end_and_no_more(url: str, sessions: rta_writers.SessionClient) -> None:
    """Updates and opens of somebody else's session are refused; so is a close by one who is no operator."""
    sessions.open("run-1", stream="rig")
    operator = rta_writers.SessionClient(url, principal="operator", timeout_s=20)
    for attempt in (
        lambda: operator.update("run-1", identifier="mine now"),
        lambda: operator.open("run-1", stream="rig"),
    ):
        with pytest.raises(errors.SessionConflict):
            attempt()
    assert operator.close("run-1").state == "closed"


def test_an_operator_whom_nobody_reads_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, with the setting to change: 78."""
    with supervisors.running(url):
        client = rta_writers.SessionClient(url, timeout_s=20)
        client.open("run-1", stream="rig")
        monkeypatch.setenv("RTA_CONTROL__OPERATORS", '["boss"]')
        refused(run(url, "sessions", "close", "run-1", "--yes"), 78, "no running supervisor reads requests of 'boss'")
        monkeypatch.setenv("RTA_CONTROL__OPERATORS", "[]")
        refused(run(url, "sessions", "close", "run-1", "--yes"), 78, "control.operators")


def test_many_sessions_end_with_one_command(url: str, sessions: rta_writers.SessionClient) -> None:
    """One after another, each with its answer."""
    names = [f"run-{number}" for number in range(25)]
    for name in names:
        sessions.open(name, stream="rig")
    ran = run(url, "sessions", "close", *names, "--yes", "--json").json()
    assert [one["state"] for one in ran["sessions"]] == ["closed"] * 25
    assert run(url, "sessions", "list", "--state", "open", "--json").json()["total"] == 0


def test_the_same_on_a_cluster() -> None:
    """Keys of a session live on several nodes: looking, following, ending and sending again work as elsewhere."""
    with clusters.running(3) as cluster, supervisors.running(cluster.url):
        client = rta_writers.SessionClient(cluster.url, timeout_s=30)
        opened = client.open("run-1", stream="rig")
        with rta_writers.BurstWriter(opened.options, unit="u") as writer:
            writer.samples([1] * 50, [samples.START_NS + n for n in range(50)], [float(n) for n in range(50)])
        client.report(control_pb2.Heartbeat(identity="nobody", stream_session_id=99))
        wait_until(lambda: run(cluster.url, "dlq", "list", "--json").json()["total"], what="a dead letter")
        found = run(cluster.url, "status", "--json").json()
        assert (found["sessions"]["open"], found["streams"]) == (1, 1)
        assert " sent to rtas:ctl:default" in run(cluster.url, "dlq", "retry", "--all", "--yes").out
        assert "ended: closed, 50 samples" in run(cluster.url, "sessions", "close", "run-1", "--yes").out
        ran = run(cluster.url, "tail", "run-1", "--from-start", "--json")
        assert rows(ran.out) == [(1, samples.START_NS + n, float(n)) for n in range(50)]
        levels = {one["check"]: one["level"] for one in run(cluster.url, "doctor", "--json").json()["findings"]}
        assert "bad" not in levels.values()
