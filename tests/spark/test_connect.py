"""Spark Connect: a client without a JVM, and a real server whose Python knows nothing of ours."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import java, server
from tests.spark import frames
from tests.support import bare_python, samples

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server. It may not listen yet: clients try again."""
    (tmp_path / "bare").mkdir()
    python = bare_python.make(tmp_path / "bare", bare_python.CONNECT_PACKAGES)
    port = server.free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path / "local"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    command = ["bash", str(SPARK / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {**os.environ, **java.spark_environment(), "PYSPARK_PYTHON": str(python)}
    environment.pop("PYSPARK_DRIVER_PYTHON")
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    yield f"sc://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.timeout(600)
def test_a_client_registers_ships_writes_and_reads(
    connect_server: str, url: str, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """As with a driver of one's own, but for counters, of which the log says that there are none."""
    frames.land(tmp_path / "in", 100, 1)
    (tmp_path / "client").mkdir()
    job = subprocess.run(
        [sys.executable, str(HERE / "connect_job.py"), connect_server, url, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path / "client"), "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-5000:]
    report = json.loads(job.stdout)
    assert report["metrics"] == [{}, "Metrics(over Spark Connect, where nothing is counted)"]
    assert "spark.sql.execution.arrow.maxRecordsPerBatch" in report["tuned"]
    assert "no option 'sampletyp'. Did you mean 'sampleType'" in report["refusal"]
    batch = [(n % 7, n * 1000, n / 4) for n in range(1000)]
    assert sorted(samples.rows(client, "rig")) == sorted(batch + frames.rows(100))
    in_channel = [row[1:] for row in batch + frames.rows(100) if row[0] == 3]
    assert [tuple(row) for row in report["rows"]] == sorted(in_channel)
    assert (report["path"], list((tmp_path / "client").iterdir())) == ([], []), "what was shipped is left behind"
    assert job.stderr.count("Spark Connect: tasks can't count") == 2
    assert "Traceback" not in job.stderr
    assert "registered data source" not in (tmp_path / "server.log").read_text(), "Spark warned about our registration"
    assert sessions.url == url
