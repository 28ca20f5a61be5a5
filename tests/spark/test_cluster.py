"""Executors that are other processes, die, and have twins; their interpreter knows nothing of us."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
import redis

from rta_supervisor.embedded import java
from rta_writers.spark import ship_packages, shipped_path
from tests.support import bare_python as bare_python_script
from tests.support import samples, stream_content, supervisors

ROOT = Path(__file__).parents[2]
ROWS = 200_000
WRITTEN = sorted((n % 7, samples.START_NS + n * 1000, n / 4) for n in range(ROWS))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with numpy and pyarrow, and without anything of ours."""
    return bare_python_script.make(tmp_path_factory.mktemp("bare"))


def submit(url: str, python: Path, work: Path, command: list[str], shipped_by: str) -> dict[str, Any]:
    """Run the job by a command, with executors whose interpreter has nothing of ours. Gives what it found."""
    blind = subprocess.run([str(python), "-c", "import rta_wire"], capture_output=True, check=False)
    assert blind.returncode != 0, "the bare interpreter sees our packages"
    environment = {
        **os.environ,
        **java.spark_environment(),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TMPDIR": str(work),
    }
    with supervisors.running(url), (work / "log").open("wb") as log:
        program = [*command, str(ROOT / "tests" / "spark" / "cluster_job.py"), url, str(work), shipped_by]
        job = subprocess.run(program, env=environment, stdout=subprocess.PIPE, stderr=log, check=False)
    output = (work / "log").read_text()
    assert job.returncode == 0, output[-5000:]
    assert "registered data source" not in output, "Spark warned about our registration"
    report: dict[str, Any] = json.loads(job.stdout)
    return report


@pytest.mark.timeout(1800)
def test_rows_survive_lost_executors_and_twins(
    url: str, client: redis.Redis, bare_python: Path, tmp_path: Path
) -> None:
    """Each row once on executors that got us shipped; the same faults double rows where delivery is at least once."""
    results = submit(url, bare_python, tmp_path, [sys.executable], "ship")
    assert list(tmp_path.rglob("rta-ship*")) == [], "what was shipped is left behind"
    assert "call rta_writers.ship(spark)" in results["refused"]["error"]
    assert "PYSPARK_PYTHON" in results["refused"]["error"]
    assert {"plain", "killed", "killed-doubled", "speculated", "speculated-doubled"} <= results.keys()
    for name, faults in (
        ("plain", 0),
        ("killed", 1),
        ("killed-staged", 1),
        ("speculated", 2),
        ("speculated-staged", 2),
    ):
        if name not in results:
            continue
        assert results[name]["injected"] == faults, name
        assert stream_content.samples(client, name, results[name]["id"]) == WRITTEN, name
    for name, faults in (("killed-doubled", 1), ("speculated-doubled", 2)):
        written = stream_content.samples(client, name, results[name]["id"])
        assert results[name]["injected"] == faults, name
        assert len(written) > ROWS, f"{name}: the fault was not one"
        assert sorted(set(written)) == WRITTEN, name
    assert results["read"]["rows"] == ROWS
    assert results["metrics"]["duplicates"] > 0


@pytest.mark.timeout(1800)
def test_files_of_spark_submit_are_enough(url: str, client: redis.Redis, bare_python: Path, tmp_path: Path) -> None:
    """`--py-files` and `--archives`, which are spark.submit.pyFiles and spark.archives, instead of `ship`."""
    code, archive = ship_packages.pack(tmp_path)
    script = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    files = ["--py-files", str(code), "--archives", f"{archive}#{shipped_path.FOLDER}"]
    results = submit(url, bare_python, tmp_path, ["bash", str(script), *files], "spark-submit")
    assert stream_content.samples(client, "submitted", results["submitted"]["id"]) == WRITTEN
