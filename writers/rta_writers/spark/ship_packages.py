"""On the driver: sends `rta_writers` and what it needs to executors that do not have it installed.

Two files are sent: the pure Python packages as a zip on the path of every task, and the compiled ones that they need as
an archive, since Python can't import those from a zip. Executors need the interpreter and the platform of the driver,
and what PySpark itself needs of them: numpy and pyarrow.
"""

import importlib.metadata
import importlib.util
import logging
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rta_wire import errors
from rta_writers.options import arguments
from rta_writers.spark import shipped_path

log: Final = logging.getLogger("rta_writers")

PACKAGES: Final = ("rta_wire", "rta_writers", "pyspark_rta")
COMPILED: Final = ("hiredis", "lz4", "msgspec", "protobuf", "redis")
"""Distributions that go into the archive, beside the Python packages that need them."""


def ship(spark: Any) -> None:
    """Send the packages to every executor of a Spark session. To be called once, before `register`."""
    if not hasattr(spark, "sparkContext"):
        raise arguments.refuse("spark", spark, "a SparkSession")
    folder = Path(tempfile.mkdtemp(prefix="rta-ship-"))
    code, archive = pack(folder)
    spark.sparkContext.addPyFile(str(code))
    spark.sparkContext.addArchive(f"{archive}#{shipped_path.FOLDER}")
    log.info("shipped %s and %s", code.name, archive.name)


def pack(folder: Path) -> tuple[Path, Path]:
    """Write the zip for `--py-files` and the archive for `--archives` into a folder, and give their paths."""
    if not hasattr(folder, "is_dir") or not folder.is_dir():
        raise arguments.refuse("folder", folder, "a Path of a folder that exists")
    code = folder / "rta_writers.zip"
    with zipfile.ZipFile(code, "w", zipfile.ZIP_DEFLATED) as code_zip:
        for package in PACKAGES:
            root = _package_folder(package)
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    code_zip.write(path, Path(package) / path.relative_to(root))
    archive = folder / f"{shipped_path.FOLDER}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as compiled:
        for path, name in _distribution_files(COMPILED):
            compiled.add(path, name)
    return code, archive


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise errors.Unavailable(what=f"Package {package}", reason="it is not installed on the driver")
    return Path(spec.origin).parent


def _distribution_files(distributions: Iterable[str]) -> Iterable[tuple[Path, str]]:
    for distribution in distributions:
        for file in importlib.metadata.files(distribution) or ():
            path = Path(str(file.locate()))
            is_skipped = ".." in file.parts or "__pycache__" in file.parts
            if not is_skipped and path.is_file():
                yield path, str(file)
