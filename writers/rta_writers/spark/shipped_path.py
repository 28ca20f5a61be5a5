"""On an executor: puts the packages that `ship_packages` sent on `sys.path`. Imports none of them."""

import sys
from pathlib import Path
from typing import Final

FOLDER: Final = "rta_shipped"
"""Spark unpacks the archive under this name beside the files of the job, a folder that is on the path."""


def activate() -> None:
    """Append the shipped packages to the path. Installed ones come before them."""
    for entry in list(sys.path):
        folder = str(Path(entry or ".") / FOLDER)
        if folder not in sys.path and Path(folder).is_dir():
            sys.path.append(folder)
