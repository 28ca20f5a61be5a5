"""`tail`: every sample of a session, warnings about what is missing, outages waited out."""

import itertools
import subprocess
import sys
from pathlib import Path

import msgspec
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from tests.support import samples, supervisors
from tests.support.commands import refused, rows, run
from tests.support.control import write


def test_tail_shows_what_was_written(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Every sample of this session and of no other, from the first state to the closed one."""
    session, other = sessions.open("run-1", stream="rig"), sessions.open("run-2", stream="rig")
    write(client, session, 250)
    write(client, other, 5)
    session.close()
    result = run(url, "tail", "run-1", "--from-start", "--json")
    assert rows(result.out) == [(1, samples.START_NS + n, float(n)) for n in range(250)]
    first, *_, last = (msgspec.json.decode(line) for line in result.out.splitlines())
    assert (first["document"]["state"], last["document"]["state"]) == ("open", "closed")
    assert rows(run(url, "tail", "run-1", "--from-start", "--channel", "2", "--json").out) == []
    page = run(url, "tail", "run-1", "--from-start", "--channel", "1")
    assert page.code == 0
    assert "2023-11-14T22:13:20.000000249Z  channel 1      249.0" in page.out
    assert "run-1 is closed" in page.out
    late = run(url, "tail", "run-1")
    assert (late.code, late.out) == (0, "")
    assert "--from-start" in late.err
    refused(run(url, "tail", "run-1", "--sample-type", "7=wide"), 64, "Types are double")


def test_output_that_can_not_be_written_is_no_outage_of_redis(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient
) -> None:
    """Of `tail` and `top`: a closed pipe ends them in silence, a full disk is named."""
    session = sessions.open("run-1", stream="rig")
    write(client, session, 20_000)
    session.close()
    program = [sys.executable, "-m", "rta_supervisor"]
    for words in (["tail", "run-1", "--from-start"], ["top", "--every-s", "0.1"]):
        command = [*program, *words, "--redis-url", url]
        piped = ["bash", "-c", 'set -o pipefail; "$@" | true', "bash", *command]
        ended = subprocess.run(piped, capture_output=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (141, b"")
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        assert (ended.returncode, b"No space left on device" in ended.stderr) == (74, True)
        assert b"Redis" not in ended.stderr


def test_tail_says_what_it_missed(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Trimmed entries and entries that can't be decoded are reported, and the exit code is 65."""
    session = sessions.open("run-1", stream="rig")
    write(client, session, 20)
    client.xadd("stream:rig", {"id": session.target.stream_session_id, "data": b"\xff\xff"})
    client.xadd("stream:rig", {"id": "x", "data": b""})
    session.close()
    client.xtrim("stream:rig", maxlen=client.xlen("stream:rig") - 11, approximate=False)
    result = run(url, "tail", "run-1", "--from-start", "--json")
    assert result.code == 65
    assert "11 entries of the stream after 0-0 were trimmed" in result.err
    assert result.err.count("A burst can't be decoded") == 2
    assert msgspec.json.decode(result.out.splitlines()[0])["entries"] == 11
    assert rows(result.out) == [(1, samples.START_NS + n, float(n)) for n in range(10, 20)]


def test_tail_continues_after_a_restart_of_redis() -> None:
    """SIGKILL of the server while `tail` runs: what is written after the restart is printed, and nothing twice."""
    with (
        server.running(options={"appendonly": "yes", "appendfsync": "always"}) as embedded,
        supervisors.running(embedded.url),
        redis_client.connect(embedded.url) as client,
    ):
        session = rta_writers.SessionClient(embedded.url, timeout_s=30).open("run-1", stream="rig")
        write(client, session, 10)
        command = [sys.executable, "-m", "rta_supervisor", "tail", "run-1", "--from-start", "--json"]
        with subprocess.Popen(
            [*command, "--redis-url", embedded.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as tail:
            assert tail.stdout is not None
            before = list(itertools.takewhile(lambda line: '"value":9.0' not in line, tail.stdout))
            embedded.kill()
            assert tail.stderr is not None
            assert "Redis is away, waiting for it" in tail.stderr.readline()
            embedded.start()
            write(client, session, 25)
            session.close()
            after, _ = tail.communicate(timeout=60)
    assert tail.returncode == 0
    printed = rows("".join(before) + after)
    assert sorted(time_ns - samples.START_NS for _, time_ns, _ in printed) == [*range(9), *range(10, 25)]
