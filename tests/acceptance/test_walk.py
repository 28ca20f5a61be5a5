"""`tools/walk`, which counts the files and calls between files on four walks through the code."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "row": {"writers", "proto"},
    "report": {"supervisor", "proto"},
    "open": {"supervisor", "proto"},
    "burst": {"writers", "proto"},
}
"""The top folders that each walk goes through, and no other."""


def test_walks_are_counted() -> None:
    """Each walk has files of the project, and enough calls to get from the first of them to the last."""
    completed = subprocess.run(
        [sys.executable, ROOT / "tools" / "walk", "--json"], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    walks = json.loads(completed.stdout)
    assert set(walks) == set(FOLDERS)
    for name, walk in walks.items():
        entered = walk["entered"]
        assert {Path(file).parts[0] for file in entered} == FOLDERS[name], walk
        assert all((ROOT / file).is_file() for file in entered), walk
        assert len(set(entered)) == walk["files"] > 3, walk
        assert walk["calls"] > walk["crossings"] >= walk["files"] - 1, walk
