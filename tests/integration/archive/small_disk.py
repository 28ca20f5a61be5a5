"""A file system of its own for a test, which can be full or read-only."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def remount(self, options: str) -> None:
        """Change it: `size=8m`, `ro`, `rw`."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self._path)], check=True)


@contextlib.contextmanager
def mounted(path: Path, size: str) -> Iterator[SmallDisk]:
    """A tmpfs at a folder. Skips the test where none can be mounted, as for a user who is not root."""
    if os.geteuid() != 0:
        pytest.skip("a small file system needs root")
    ran = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        pytest.skip(f"no tmpfs can be mounted: {ran.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
