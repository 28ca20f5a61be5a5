"""A driver is killed and started again from its checkpoint: between any two epochs, and in the middle of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import redis

import rta_writers
from rta_supervisor.embedded import java
from tests.spark import frames
from tests.support import stream_content
from tests.support.waiting import wait_until

SOAK = bool(os.environ.get("RTA_SOAK"))
HERE = Path(__file__).parent
START_S = 400
"""How long a Spark may take to start and to do its work on a busy machine."""


def spawn(program: str, work: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / program), *arguments]
    environment = {**os.environ, **java.spark_environment(), "PYTHONPATH": str(HERE.parents[1])}
    with (work / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)


def session_rows(client: redis.Redis, identity: str, stream: str) -> frames.Rows:
    number: Any = client.hget(f"sessions:{identity}", "streamSessionId")
    return stream_content.samples(client, stream, int(number))


@pytest.mark.timeout(1800)
def test_a_driver_dies_after_each_epoch(
    url: str, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """The driver is killed after each epoch, before Spark notes it: each row is there once, by plain XADD twice."""
    epochs = 6 if SOAK else 1
    rows = 1000 * epochs
    frames.land(tmp_path / "in", rows, epochs)
    for epoch in range(epochs):
        job = spawn("epoch_job.py", tmp_path, url, str(tmp_path), str(epoch))
        assert job.wait(START_S) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    job = spawn("epoch_job.py", tmp_path, url, str(tmp_path), "-1")
    assert job.wait(START_S) == 0, (tmp_path / "log").read_text()[-3000:]
    assert session_rows(client, "exactly-once", "exactly-once") == frames.rows(rows)
    assert session_rows(client, "at-least-once", "at-least-once") == sorted(frames.rows(rows) * 2)
    assert sessions.url == url


@pytest.mark.timeout(1800)
def test_a_driver_is_killed_and_restarted(
    url: str, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """kill -9 of driver and executors in the middle of the query, then again from the checkpoint: each row once."""
    rows, files = 80_000, 8
    frames.land(tmp_path / "in", rows, files)
    kills = 5 if SOAK else 1
    for kill in range(kills):
        job = spawn("stream_job.py", tmp_path, url, "rig", str(tmp_path), "exactly-once")
        enough = rows * (kill + 1) // (kills + 2)
        wait_until(lambda: samples_written(client) > enough or job.poll() is not None, timeout_s=START_S, what="rows")  # noqa: B023
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        assert 0 < samples_written(client) < rows, "it was not killed in the middle"
    job = spawn("stream_job.py", tmp_path, url, "rig", str(tmp_path), "exactly-once")
    assert job.wait(START_S) == 0, (tmp_path / "log").read_text()[-3000:]
    assert session_rows(client, "run-1", "rig") == frames.rows(rows)
    assert sessions.url == url


def samples_written(client: redis.Redis) -> int:
    return sum(
        int(text.split()[3])
        for name in client.scan_iter(match="rtas:dd:*", _type="hash")
        for text in cast("list[bytes]", client.hvals(name))
    )
