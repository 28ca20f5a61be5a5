"""Packages of npm, for tests on machines that have Node; elsewhere these tests are skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL_TIMEOUT_S = 60


def install(folder: Path, package: str) -> Path:
    """Installs a package below a folder and gives where it is. Skips the test where that can't be done."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node with npm")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm can't install {package}: {error}")
    return folder / "node_modules" / package
