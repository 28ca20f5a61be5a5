"""On the driver: sends `rta_writers` and what it needs to executors that do not have it installed.

Two files are sent: the pure Python packages as a zip on the path of every task, and the compiled ones that they need as
an archive, since Python can't import those from a zip. Executors need the interpreter and the platform of the driver,
and what PySpark itself needs of them: numpy and pyarrow.
"""

import gzip
import importlib.metadata
import importlib.util
import logging
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pyspark import SparkFiles

from rta_wire import errors
from rta_writers.options import arguments
from rta_writers.spark import connect, shipped_path

log: Final = logging.getLogger("rta_writers")

FOUND_BY_SPARK: Final = "pyspark_rta"
PACKAGES: Final = ("rta_wire", "rta_writers", FOUND_BY_SPARK)
COMPILED: Final = ("hiredis", "lz4", "msgspec", "protobuf", "redis")
"""Distributions that go into the archive, beside the Python packages that need them."""


def ship(spark: Any) -> None:
    """Send the packages to every executor of a Spark session, once. To be called before `register`."""
    connect.check_session(spark)
    if connect.is_remote(spark):
        with tempfile.TemporaryDirectory(prefix="rta-ship-") as folder:
            # Spark looks for modules like pyspark_rta once, for all sessions of a server: others don't have the zip.
            code, archive = pack(Path(folder), [name for name in PACKAGES if name != FOUND_BY_SPARK])
            connect.send(spark, code, f"{archive}#{shipped_path.FOLDER}")
    else:
        if any(shipped_path.FOLDER in name for name in spark.sparkContext.listArchives):
            return
        # Executors fetch the files when they start, at any time. Spark removes its folder when it stops.
        code, archive = pack(Path(tempfile.mkdtemp(prefix="rta-ship-", dir=SparkFiles.getRootDirectory())))
        spark.sparkContext.addPyFile(str(code))
        spark.sparkContext.addArchive(f"{archive}#{shipped_path.FOLDER}")
    log.info("shipped %s and %s", code.name, archive.name)


def pack(folder: Path, packages: Iterable[str] = PACKAGES) -> tuple[Path, Path]:
    """Write the zip for `--py-files` and the archive for `--archives` into a folder, and give their paths.

    Both have the same bytes each time: Spark Connect refuses another file under a name that it knows.
    """
    if not hasattr(folder, "is_dir") or not folder.is_dir():
        raise arguments.refuse("folder", folder, "a Path of a folder that exists")
    code = folder / "rta_writers.zip"
    with zipfile.ZipFile(code, "w", zipfile.ZIP_DEFLATED) as code_zip:
        for package in packages:
            root = _package_folder(package)
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    code_zip.write(path, Path(package) / path.relative_to(root))
    archive = folder / f"{shipped_path.FOLDER}.tar.gz"
    with (
        gzip.GzipFile(archive, "wb", compresslevel=1, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as compiled,
    ):
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
