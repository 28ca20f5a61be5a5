"""How far the code makes a reader walk: `tools/walk` still finds its four walks, wherever modules are."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = {
    "row": {"writers", "proto"},
    "report": {"supervisor", "proto"},
    "open": {"supervisor", "proto"},
    "burst": {"writers", "proto"},
}
"""The folders that each walk goes through, and no other."""


def test_walks_are_counted() -> None:
    """Each walk has files of ours that exist, and enough calls to get from the first of them to the last."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "walk", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    walks = json.loads(done.stdout)
    assert set(walks) == set(TOP)
    for name, walk in walks.items():
        entered = walk["entered"]
        assert {Path(file).parts[0] for file in entered} == TOP[name], walk
        assert all((ROOT / file).is_file() for file in entered), walk
        assert len(set(entered)) == walk["files"] > 3, walk
        assert walk["calls"] > walk["crossings"] >= walk["files"] - 1, walk
