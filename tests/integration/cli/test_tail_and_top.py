"""What an operator watches: the samples of a session as they come, and the rates of all."""

import itertools
import subprocess
import sys

import msgspec
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from tests.support import samples, supervisors
from tests.support.commands import refused, rows, run
from tests.support.control import write

NOWHERE = "unix:///nonexistent/socket"


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
        redis_client.connect(own.url) as client,
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
