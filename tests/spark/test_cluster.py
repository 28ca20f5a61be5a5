"""Executors that are other processes, die, and have twins: on `local-cluster`, with an interpreter that knows nothing of us."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from rta_supervisor.embedded import java
from tests.support import supervisors

ROOT = Path(__file__).parents[2]
SEES = ("numpy", "numpy.libs", "pyarrow", "pandas", "pandas.libs", "dateutil", "pytz", "six.py", "tzdata", "py4j")
"""What PySpark itself needs on an executor."""

ROWS = 200_000
SUM = sum(n / 4 for n in range(ROWS))


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


def test_rows_survive_lost_executors_and_twins(results: dict[str, Any]) -> None:
    """Each row once on executors that got us shipped; the same faults double rows where delivery is at least once."""
    assert results["plain"] == {"injected": 0, "rows": ROWS, "distinct": ROWS, "sum": SUM}
    for name, marks in (("twins", 2), ("killed", 1), ("killed-staged", 1)):
        assert results[name] == {"injected": marks, "rows": ROWS, "distinct": ROWS, "sum": SUM}, name
    for name in ("twins-doubled", "killed-doubled"):
        assert results[name]["injected"] > 0, name
        assert results[name]["distinct"] == ROWS, name
        assert results[name]["rows"] > ROWS, f"{name}: the fault was not one"
    assert results["metrics"]["duplicates"] > 0
