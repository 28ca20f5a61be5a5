"""Finds the packages that `ship` sent along, on executors that have nothing of ours installed. Imports nothing."""

import sys
from pathlib import Path
from typing import Final

FOLDER: Final = "rta_shipped"
"""Spark unpacks the archive under this name beside the files of the job, a folder that is on the path."""


def activate() -> None:
    """Make shipped packages importable. What is installed goes first."""
    for entry in list(sys.path):
        folder = str(Path(entry or ".") / FOLDER)
        if folder not in sys.path and Path(folder).is_dir():
            sys.path.append(folder)
