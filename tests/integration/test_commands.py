"""Commands of an operator against a real server and a real supervisor: what they print, what they change."""

import itertools
import subprocess
import sys
from typing import Any

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor import calls, overview
from rta_supervisor.commands import dlq, ending, showing, status
from rta_supervisor.embedded import server
from rta_supervisor.letters import Letter, Opened, SentAgain
from rta_wire import control, control_pb2, errors, keys
from rta_wire.totals import Totals
from rta_writers import connection
from tests.support import clusters, samples, supervisors
from tests.support.commands import refused, run
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


def convert(found: Any, kind: Any) -> Any:
    """What a script reads, checked against what the code says that it prints: no field more, none less."""
    read = msgspec.convert(found, kind)
    assert msgspec.to_builtins(read) == found
    return read


def test_status_counts_what_there_is(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Sessions by state, streams, messages and dead letters, for people and for scripts."""
    first, second = sessions.open("run-1", stream="rig"), sessions.open("run-2", stream="other")
    write(client, first, 3)
    second.pause()
    send(client, control_pb2.Heartbeat(identity="nobody", stream_session_id=99))
    wait_until(lambda: dead_letters(client), what="a dead letter")
    found = convert(run(url, "status", "--json").json(), status.Status)
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
    lines = convert(listed["sessions"], list[overview.SessionLine])
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
    [stream] = convert(run(url, "streams", "--json").json()["streams"], list[overview.StreamLine])
    assert (stream.stream, stream.entries, stream.open_sessions) == ("rig", client.xlen("stream:rig"), 3)
    assert stream.memory_bytes == client.memory_usage("stream:rig")
    [node] = convert(run(url, "nodes", "--json").json()["nodes"], list[overview.NodeLine])
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
    return showing.Shown.__struct_fields__


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
    [closed] = convert(answer["sessions"], list[ending.Ended])
    assert closed == ending.Ended("run-1", "closed", was_closed=False, samples=3)
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


def lane_added(client: redis.Redis, key: str) -> int:
    info: Any = client.xinfo_stream(key)
    return int(info["entries-added"])


def test_a_dead_letter_is_sent_again_once(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """A report that came before its session counts when it is sent again; after a crash it is not sent twice."""
    report = control_pb2.Progress(
        identity="run-1",
        stream_session_id=1,
        unit="u",
        totals=Totals(2, 7, 10, 10, samples.START_NS, samples.START_NS + 1).to_message(),
    )
    send(client, report)
    wait_until(lambda: dead_letters(client), what="the dead letter")
    listed = run(url, "dlq", "list", "--json").json()
    [letter] = convert(listed["letters"], list[Letter])
    assert (letter.code, letter.kind, letter.session) == ("UnknownSession", "Progress", "run-1")
    found = convert(run(url, "dlq", "show", letter.letter, "--json").json(), Opened)
    assert found.message["totals"]["samples"] == "7"
    assert "There is no session 'run-1'" in run(url, "dlq", "list").out
    assert '"samples": "7"' in run(url, "dlq", "show", letter.letter).out
    opened = sessions.open("run-1", stream="rig")
    assert opened.target.stream_session_id == 1

    added = lane_added(client, "rtas:ctl:default")
    raw = dead_letters(client)[0][b"m"]
    again = calls.again(keys.Keys(), "rtas:ctl:default", letter.letter, raw, ttl_s=60)
    client.execute_command(*again)  # an operator's command that was killed before it removed the letter
    ran = run(url, "dlq", "retry", letter.letter, "--json").json()
    assert convert(ran["sent"], list[SentAgain]) == [SentAgain(letter.letter, "rtas:ctl:default", "")]
    assert lane_added(client, "rtas:ctl:default") == added + 1
    wait_until(lambda: folded(client, "run-1").samples == 7, what="the report")
    assert dead_letters(client) == []
    refused(run(url, "dlq", "retry", letter.letter), 66, "There is no dead letter")


def test_a_request_is_sent_again_with_another_id(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """It was answered with an error, and an answer is final: under its old id nothing would happen."""
    request = control_pb2.OpenSession(
        request_id="first", identity="run-1", stream="rig",
        session_json='{"identity":"run-1","identifier":"Run 1","state":"open","timestamp":"2026-01-01T00:00:00Z"}',
    )  # fmt: skip
    client.xadd("rtas:req:default", {"m": control.pack(request)}, id="1000-1")  # sent in 1970, so it is too late
    wait_until(lambda: dead_letters(client), what="the dead letter")
    ran = run(url, "dlq", "retry", "--all", "--yes")
    assert "sent to rtas:req:default" in ran.out
    wait_until(lambda: client.exists("sessions:run-1"), what="the session")
    assert sessions.open("run-1", stream="rig").identity == "run-1"


def test_what_cannot_be_sent_again_stays(client: redis.Redis, url: str, supervisor: Supervisor) -> None:
    """Nonsense and letters from lanes that nobody reads; they can be dropped."""
    client.xadd("rtas:ctl:default", {"m": b"nonsense"})
    wait_until(lambda: dead_letters(client), what="the dead letter")
    client.xadd("rtas:dlq", {"source": "lastStreamSessionId", "entry": "1-1", "code": "X", "reason": "?", "m": b""})
    entries: Any = client.xrange("rtas:dlq")
    ids = [entry.decode() for entry, _ in entries]
    refused(run(url, "dlq", "retry", ids[0]), 65, "it is not a Control message")
    refused(run(url, "dlq", "retry", ids[1]), 65, "which no supervisor reads")
    left = run(url, "dlq", "retry", "--all", "--yes", "--json").json()["left"]
    assert [one.letter for one in convert(left, list[dlq.Unsendable])] == ids
    assert "6e6f6e73656e7365" in run(url, "dlq", "show", ids[0]).out
    refused(run(url, "dlq", "retry"), 64, "--all")
    refused(run(url, "dlq", "drop", ids[0]), 64, "say --yes")
    refused(run(url, "dlq", "drop", ids[0], "1-1", "--yes"), 66, "'1-1'")
    assert run(url, "dlq", "drop", ids[0], "--yes", "--json").json() == {"dropped": [ids[0]]}
    assert "1 removed" in run(url, "dlq", "drop", "--all", "--yes").out
    assert "no dead letters" in run(url, "dlq", "list").out
    assert supervisor.process.poll() is None


def rows(out: str) -> list[tuple[int, int, float]]:
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    return [(one["channel"], one["time_ns"], one["value"]) for one in lines if one["kind"] == "sample"]


def test_tail_shows_what_was_written(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Every sample of this session and no other, from the first to the closed state."""
    mine, other = sessions.open("run-1", stream="rig"), sessions.open("run-2", stream="rig")
    write(client, mine, 250)
    write(client, other, 5)
    mine.close()
    ran = run(url, "tail", "run-1", "--from-start", "--json")
    assert rows(ran.out) == [(1, samples.START_NS + n, float(n)) for n in range(250)]
    first, *_, last = (msgspec.json.decode(line) for line in ran.out.splitlines())
    assert (first["document"]["state"], last["document"]["state"]) == ("open", "closed")
    assert rows(run(url, "tail", "run-1", "--from-start", "--channel", "2", "--json").out) == []
    text = run(url, "tail", "run-1", "--from-start", "--channel", "1")
    assert text.code == 0
    assert "2023-11-14T22:13:20.000000249Z  channel 1      249.0" in text.out
    assert "run-1 is closed" in text.out
    late = run(url, "tail", "run-1")
    assert (late.code, late.out) == (0, "")
    assert "--from-start" in late.err
    refused(run(url, "tail", "run-1", "--sample-type", "7=wide"), 64, "Types are double")


def test_tail_says_what_it_missed(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Trimmed entries and entries that can't be decoded are reported, and the exit code is 65."""
    mine = sessions.open("run-1", stream="rig")
    write(client, mine, 20)
    number = mine.target.stream_session_id
    client.xadd("stream:rig", {"id": number, "data": b"\xff\xff"})
    client.xadd("stream:rig", {"id": "x", "data": b""})
    mine.close()
    client.xtrim("stream:rig", maxlen=client.xlen("stream:rig") - 11, approximate=False)
    ran = run(url, "tail", "run-1", "--from-start", "--json")
    assert ran.code == 65
    assert "11 entries of the stream after 0-0 were trimmed" in ran.err
    assert ran.err.count("A burst can't be decoded") == 2
    assert msgspec.json.decode(ran.out.splitlines()[0])["entries"] == 11
    assert rows(ran.out) == [(1, samples.START_NS + n, float(n)) for n in range(10, 20)]


def test_tail_rides_out_a_restart_of_redis() -> None:
    """kill -9 of the server while it follows: what comes after the restart is there, nothing twice."""
    with (
        server.running(options={"appendonly": "yes", "appendfsync": "always"}) as own,
        supervisors.running(own.url),
        connection.connect(own.url) as client,
    ):
        mine = rta_writers.SessionClient(own.url, timeout_s=30).open("run-1", stream="rig")
        write(client, mine, 10)
        words = [sys.executable, "-m", "rta_supervisor", "tail", "run-1", "--from-start", "--json"]
        with subprocess.Popen(
            [*words, "--redis-url", own.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as tail:
            assert tail.stdout is not None
            seen = list(itertools.takewhile(lambda line: '"value":9.0' not in line, tail.stdout))
            own.kill()
            assert tail.stderr is not None
            assert "Redis is away, waiting for it" in tail.stderr.readline()
            own.start()
            write(client, mine, 25)
            mine.close()
            rest, _ = tail.communicate(timeout=60)
    assert tail.returncode == 0
    found = rows("".join(seen) + rest)
    assert sorted(time_ns - samples.START_NS for _, time_ns, _ in found) == [*range(9), *range(10, 25)]


def test_top_shows_rates(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Off a terminal: the last of two looks, as plain text."""
    write(client, sessions.open("run-1", stream="rig"), 5)
    ran = run(url, "top", "--every-s", "0.1")
    assert ran.code == 0
    assert "samples/s" in ran.out
    assert "run-1" in ran.out
    assert "\x1b" not in ran.out


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
