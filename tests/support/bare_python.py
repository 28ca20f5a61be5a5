"""A Python interpreter as an executor may have it: with what PySpark needs, and without anything of ours."""

import sys
import sysconfig
from pathlib import Path

PACKAGES = ("numpy", "numpy.libs", "pyarrow", "pandas", "pandas.libs", "dateutil", "pytz", "six.py", "tzdata", "py4j")
"""What PySpark itself needs on an executor."""

CONNECT_PACKAGES = ("numpy", "numpy.libs", "pyarrow", "py4j")
"""What it needs at least. Without pandas its processes start faster."""


def make(folder: Path, packages: tuple[str, ...] = PACKAGES) -> Path:
    """The path of a script that runs such an interpreter."""
    site = Path(sysconfig.get_paths()["purelib"])
    (folder / "site").mkdir()
    for name in packages:
        if (site / name).exists():
            (folder / "site" / name).symlink_to(site / name)
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{folder / "site"}"\nexec "{sys.executable}" -S "$@"\n'
    )
    script.chmod(0o755)
    return script
