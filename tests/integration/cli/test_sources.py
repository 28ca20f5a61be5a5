"""Commands about a source with a stream per day: its name stands for all of its days. An unknown name is an error."""

import signal
import subprocess
import sys

import msgspec
import pytest
import redis

import rta_writers
from rta_wire import day_streams, keys
from tests.support import samples, supervisors
from tests.support.commands import refused, rows, run
from tests.support.control import write

NAMES = keys.Keys()


def test_a_source_is_one_stream_to_commands(url: str, client: redis.Redis) -> None:
    """`sessions list`, `streams` and `tail` by its name, with a session of today and entries of an earlier day."""
    with supervisors.running(url, {"RTA_DAYS__PARTITION": "day"}):
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        session = sessions.open("run-1", stream="rig")
        sessions.open("other", stream="rig-2")
        write(client, session, 3)
        today = day_streams.parse(session.target.stream)
        assert today is not None
        yesterday = day_streams.Day("rig", today.number - 1)
        [burst] = samples.bursts(1, first=9)
        client.xadd(keys.stream(yesterday.stream), {"id": "99", "data": burst.data}, id=f"{yesterday.start_ms}-1")
        client.zadd(NAMES.days("rig"), {yesterday.stream: yesterday.number})
        client.zadd(NAMES.streams_used(), {yesterday.stream: yesterday.start_ms})
        for name in ("rig", today.stream):
            listed = run(url, "sessions", "list", "--stream", name, "--json").json()["sessions"]
            assert [row["identity"] for row in listed] == ["run-1"]
        assert run(url, "sessions", "list", "--stream", yesterday.stream, "--json").json()["sessions"] == []
        listed = run(url, "streams", "--stream", "rig", "--json").json()["streams"]
        assert {row["stream"] for row in listed} == {today.stream, yesterday.stream}
        assert "rig.*" in run(url, "streams", "--stream", "rig").out
        command = [sys.executable, "-m", "rta_supervisor", "tail", "--stream", "rig", "--from-start", "--json"]
        with subprocess.Popen([*command, "--redis-url", url], stdout=subprocess.PIPE, text=True) as tail:
            assert tail.stdout is not None
            lines = []
            for line in tail.stdout:
                lines.append(line)
                if '"value":2.0' in line:
                    tail.send_signal(signal.SIGINT)
        printed = [msgspec.json.decode(line) for line in lines]
        assert rows("".join(lines)) == [(1, samples.START_NS + n, float(n)) for n in (9, 0, 1, 2)]
        samples_of = {(line["session"], line["stream"]) for line in printed if line["kind"] == "sample"}
        assert samples_of == {("99", yesterday.stream), ("run-1", today.stream)}


@pytest.mark.parametrize(
    "arguments", [["tail"], ["streams"], ["sessions", "list"]], ids=["tail", "streams", "sessions list"]
)
def test_an_unknown_stream_is_named_with_the_nearest(
    url: str, sessions: rta_writers.SessionClient, arguments: list[str]
) -> None:
    """Ends with 66 and names the source that was probably meant. A bad name is refused as such."""
    sessions.open("run-17", stream="rocket-engine")
    sentence = "There is no stream and no source 'rocket-engin'; the nearest is 'rocket-engine'"
    refused(run(url, *arguments, "--stream", "rocket-engin"), 66, sentence)
    refused(run(url, *arguments, "--stream", "a b"), 64, "is not valid")


@pytest.mark.usefixtures("catalogue")
def test_a_stream_that_the_catalogue_never_had() -> None:
    """Is an error for a search and an export; a stream without sessions that match is not."""
    refused(run("", "sessions", "list", "--all", "--stream", "othe"), 66, "no source 'othe'; the nearest is 'other'")
    refused(run("", "sessions", "export", "--stream", "nope"), 66, "no source 'nope'")
    found = run("", "sessions", "list", "--all", "--stream", "other", "--state", "abandoned", "--json").json()
    assert found["sessions"] == []


def test_tail_names_one_thing(url: str) -> None:
    """A session or a stream, not both and not neither."""
    for arguments in ([], ["run-1", "--stream", "rig"]):
        refused(run(url, "tail", *arguments), 64, "or a stream: --stream NAME")
