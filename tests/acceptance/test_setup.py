"""`tools/install`, which makes the virtual environment for `make demo` and `make test`: what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("no-such-python", "no 'no-such-python' on the PATH"),
        ("old-python", "too old"),
    ],
)
def test_tools_install_refuses_a_missing_or_old_python(tmp_path: Path, python: str, sentence: str) -> None:
    """The sentence names what is wrong with Python, and no virtual environment is made."""
    old_python = tmp_path / "old-python"
    old_python.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Python 3.9.2' || exit 1\n")
    old_python.chmod(0o755)
    completed = subprocess.run(
        [ROOT / "tools" / "install", python, str(tmp_path / "venv"), "demo"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode in (69, 78)
    assert sentence in completed.stderr
    assert not (tmp_path / "venv").exists()


def test_tools_install_without_a_network(tmp_path: Path) -> None:
    """Where the package index can't be reached, the sentence asks about the index."""
    completed = subprocess.run(
        [ROOT / "tools" / "install", sys.executable, str(tmp_path / "venv"), "demo"],
        env={
            "PATH": "/usr/bin:/bin",
            "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
            "PIP_RETRIES": "0",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 69
    assert "could not be installed" in completed.stderr
    assert "Is the package index reachable?" in completed.stderr
