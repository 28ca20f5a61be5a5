"""`streams trim` through a supervisor: what goes, what it asks and refuses; and how `streams` and `tail` choose."""

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.retention.trim_requests import rules as trim_rules
from rta_wire import day_streams, keys
from tests.support import samples, supervisors
from tests.support.commands import refused, rows, run
from tests.support.control import write
from tests.support.waiting import wait_until

NAMES = keys.Keys()


def test_a_stream_is_trimmed_on_request(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, supervisor: supervisors.Supervisor
) -> None:
    """By number and by time, with JSON or a sentence; it asks first, and a wrong name or extent changes nothing."""
    session = sessions.open("run-1", stream="rig")
    write(client, session, 40)
    kept = run(url, "streams", "trim", "rig", "--keep", "5", "--yes")
    assert kept.out.startswith("rig: 0 entries removed, ")
    assert trim_rules.FOR_OPEN_SESSIONS in kept.out.replace("\n", " ")
    session.close()
    wait_until(lambda: not client.zcard(NAMES.session_index()), what="a session that the catalogue has")
    before = client.xlen("stream:rig")
    refused(run(url, "streams", "trim", "rig", "--keep", "5"), 64, "say --yes")
    refused(run(url, "streams", "trim", "rig"), 64, "--keep N or --before TIME")
    refused(run(url, "streams", "trim", "rig", "--keep", "5", "--before", "1h"), 64, "--keep N or --before TIME")
    refused(run(url, "streams", "trim", "rig", "--before", "noon"), 64, "is no time")
    refused(run(url, "streams", "trim", "rgi", "--keep", "5", "--yes"), 66, "the nearest is 'rig'")
    assert client.xlen("stream:rig") == before
    [reply] = run(url, "streams", "trim", "rig", "--before", "1h", "--yes", "--json").json()["streams"]
    assert reply == {"stream": "rig", "removed_entries": 0, "entries": before, "kept_because": ""}
    result = run(url, "streams", "trim", "rig", "--keep", "5", "--yes")
    assert result == (0, f"rig: {before - 5} entries removed, 5 stay\n", "")
    assert client.xlen("stream:rig") == 5
    [event] = supervisor.events("stream_trimmed_on_request")
    assert (event["stream"], event["entries"]) == ("rig", before - 5)


def test_a_supervisor_that_can_not_trim_is_named(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """Any supervisor may get the request: one of 0.1.0 would take it for a mistake."""
    sessions.open("run-1", stream="rig").close()
    client.hset("rtas:node:old", mapping={"version": "0.1.0", "seenMs": 1})
    client.expire("rtas:node:old", 100)
    client.zadd("rtas:nodes", {"old": 4102444800000})
    refused(run(url, "streams", "trim", "rig", "--keep", "1", "--yes"), 70, "one of version 0.1.0 is running")


def test_the_days_of_a_source_are_trimmed_by_time(client: redis.Redis, url: str) -> None:
    """All of them; by number a stream has to be named."""
    with supervisors.running(url, {"RTA_TRIM__IDLE_STREAM_S": "0", "RTA_DAYS__KEEP_DAYS": "0"}):
        for day in (day_streams.Day("rig", number) for number in (20_000, 20_001)):
            for number in range(10):
                client.xadd(keys.stream(day.stream), {"id": "1", "data": b"x"}, id=f"{day.start_ms + number}-0")
            client.zadd(NAMES.days("rig"), {day.stream: day.number})
            client.zadd(NAMES.streams_used(), {day.stream: day.start_ms})
        client.expire(NAMES.days("rig"), 600)
        refused(run(url, "streams", "trim", "rig", "--keep", "5", "--yes"), 64, "such as rig.20241005")
        time_ns = str((day.start_ms + 4) * 10**6)
        replies = run(url, "streams", "trim", "rig", "--before", time_ns, "--yes", "--json").json()["streams"]
        assert [(reply["removed_entries"], reply["entries"]) for reply in replies] == [(9, 1), (4, 6)]


def test_streams_are_sorted(client: redis.Redis, url: str) -> None:
    """By memory unless something else is asked for, in the table and as JSON."""
    for name, entries, size in (("a-long", 50, 400), ("b-large", 2, 500_000), ("c-old", 1, 10)):
        for number in range(entries):
            at_ms = 1 if name == "c-old" else 2000 + len(name) + number
            client.xadd(keys.stream(name), {"id": "1", "data": b"x" * size}, id=f"{at_ms}-0")
        client.zadd(NAMES.streams_used(), {name: 1})
    for sort, expected in (
        ((), ["b-large", "a-long", "c-old"]),
        (("--sort", "entries"), ["a-long", "b-large", "c-old"]),
        (("--sort", "oldest"), ["c-old", "a-long", "b-large"]),
        (("--sort", "name"), ["a-long", "b-large", "c-old"]),
    ):
        listed = run(url, "streams", *sort, "--json").json()["streams"]
        assert [stream["stream"] for stream in listed] == expected
        table = run(url, "streams", "list", *sort).out
        assert sorted(expected, key=table.index) == expected


def test_tail_begins_where_it_is_told(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """With the last entries, or with those since a time; a closed session too. Only one of these can be said."""
    session = sessions.open("run-1", stream="rig")
    write(client, session, 30)
    session.close()
    everything = [msgspec.json.decode(line)["entry"] for line in run_tail(url, "--from-start")]
    entries = list(dict.fromkeys(everything))
    assert len(entries) > 10
    for last in (1, 5, 1000):
        shown = [msgspec.json.decode(line)["entry"] for line in run_tail(url, "--last", str(last))]
        assert list(dict.fromkeys(shown)) == entries[-last:]
    assert rows("\n".join(run_tail(url, "--since", "1h"))) == [(1, samples.START_NS + n, float(n)) for n in range(30)]
    assert run_tail(url, "--since", "2100-01-01") == []
    for options in (("--last", "5", "--since", "1h"), ("--last", "5", "--from-start")):
        refused(run(url, "tail", "run-1", *options), 64, "one of --from-start, --last and --since")
    refused(run(url, "tail", "run-1", "--since", "noon"), 64, "is no time")


def run_tail(url: str, *options: str) -> list[str]:
    result = run(url, "tail", "run-1", "--json", *options)
    assert (result.code, result.err) == (0, "")
    return result.out.splitlines()


@pytest.mark.parametrize("command", ["streams", "sessions"])
def test_a_group_of_commands_has_help(command: str) -> None:
    """Which names what else there is, and where the options of the list are; an unknown command is a mistake."""
    assert f"rta-supervisor {command} list --help" in run("", command, "--help").out
    assert run("", command, "bogus").code == 64
