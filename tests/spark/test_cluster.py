"""Executors that are other processes, die, and have twins; their interpreter knows nothing of us."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import redis

from rta_supervisor.embedded import java
from tests.support import samples, stored, supervisors

ROOT = Path(__file__).parents[2]
SEES = ("numpy", "numpy.libs", "pyarrow", "pandas", "pandas.libs", "dateutil", "pytz", "six.py", "tzdata", "py4j")
"""What PySpark itself needs on an executor."""

ROWS = 200_000
WRITTEN = sorted((n % 7, samples.START_NS + n * 1000, n / 4) for n in range(ROWS))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with numpy and pyarrow, and without anything of ours."""
    folder = tmp_path_factory.mktemp("bare")
    site = Path(sysconfig.get_paths()["purelib"])
    (folder / "site").mkdir()
    for name in SEES:
        if (site / name).exists():
            (folder / "site" / name).symlink_to(site / name)
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{folder / "site"}"\nexec "{sys.executable}" -S "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.fixture
def results(url: str, bare_python: Path, tmp_path: Path) -> dict[str, Any]:
    blind = subprocess.run([str(bare_python), "-c", "import rta_wire"], capture_output=True, check=False)
    assert blind.returncode != 0, "the bare interpreter sees our packages"
    environment = {
        **os.environ,
        **java.spark_environment(),
        "PYSPARK_PYTHON": str(bare_python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with supervisors.running(url), (tmp_path / "log").open("wb") as log:
        command = [sys.executable, str(ROOT / "tests" / "spark" / "cluster_job.py"), url, str(tmp_path)]
        job = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, check=False)
    assert job.returncode == 0, (tmp_path / "log").read_text()[-5000:]
    found: dict[str, Any] = json.loads(job.stdout)
    return found


@pytest.mark.timeout(400)
def test_rows_survive_lost_executors_and_twins(client: redis.Redis, results: dict[str, Any]) -> None:
    """Each row once on executors that got us shipped; the same faults double rows where delivery is at least once."""
    assert {"plain", "twins", "killed", "killed-doubled"} <= results.keys()
    for name, faults in (("plain", 0), ("twins", 2), ("killed", 1), ("killed-staged", 1)):
        if name not in results:
            continue
        assert results[name]["injected"] == faults, name
        assert stored.samples(client, name, results[name]["id"]) == WRITTEN, name
    for name, faults in (("twins-doubled", 2), ("killed-doubled", 1)):
        if name not in results:
            continue
        found = stored.samples(client, name, results[name]["id"])
        assert results[name]["injected"] == faults, name
        assert len(found) > ROWS, f"{name}: the fault was not one"
        assert sorted(set(found)) == WRITTEN, name
    assert results["read"]["rows"] == ROWS
    assert results["metrics"]["duplicates"] > 0
