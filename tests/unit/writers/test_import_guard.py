"""A Python process of Spark that can't import our packages says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as sql

import rta_wire
import rta_writers
from rta_writers.options.read import ReadOptions
from rta_writers.options.write import WriteOptions
from rta_writers.spark import import_guard
from rta_writers.spark.reader import BatchReader, spark_schema
from rta_writers.spark.source import RtaDataSource
from rta_writers.spark.writer import BatchWriter
from tests.support import bare_python

LIBRARIES = Path(pyspark.__file__).parent / "python" / "lib"
OPTIONS = {
    "redisUrl": "redis://nowhere",
    "stream": "rig",
    "session": "run-1",
    "streamSessionId": "1",
    "principal": "me",
}
READ_OPTIONS = ReadOptions.parse({"redisUrl": "redis://nowhere", "stream": "rig"})


@pytest.mark.parametrize(
    ("sent", "use"),
    [
        (BatchWriter(WriteOptions.parse(OPTIONS), "job", None), ""),
        (BatchReader(READ_OPTIONS, spark_schema(READ_OPTIONS)), ""),
        (import_guard.guarded_source(RtaDataSource, metrics=None), "(options={})"),
    ],
    ids=["a writer", "a reader", "a data source"],
)
def test_a_missing_package_is_explained(sent: object, use: str, tmp_path: Path) -> None:
    """The error names the interpreter, the setting that chooses it, and the function that sends the packages."""
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(sent))  # type: ignore[no-untyped-call]
    program = f"import pickle; pickle.load(open({str(tmp_path / 'sent')!r}, 'rb')){use}"
    python = bare_python.make(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, LIBRARIES.glob("*.zip")))}
    process = subprocess.run(
        [str(python), "-c", program], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    error = process.stderr.strip().splitlines()[-1]
    assert error.startswith(f"ModuleNotFoundError: No module named 'rta_writers' in {sys.executable} on host "), error
    assert "PYSPARK_PYTHON" in error
    assert "rta_writers.ship(spark) before rta_writers.register(spark)" in error


def test_without_pyspark_it_is_said_what_to_install(tmp_path: Path) -> None:
    """Where only the writers are installed, a recorder works and what a driver calls names the package."""
    python = bare_python.make(
        tmp_path, ("numpy", "numpy.libs", "pyarrow", "redis", "hiredis", "lz4", "google", "msgspec")
    )
    ours = [str(Path(package.__path__[0]).parent) for package in (rta_wire, rta_writers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ours)}
    program = "import rta_writers; rta_writers.BurstWriter, rta_writers.sessions; rta_writers.register"
    process = subprocess.run([str(python), "-c", program], env=environment, capture_output=True, text=True, check=False)
    error = process.stderr.strip().splitlines()[-1]
    assert error.startswith("rta_wire.errors.Unavailable: rta_writers.register is not available"), process.stderr
    assert "pip install 'rta-supervisor[spark]'" in error


def test_what_is_sent_arrives() -> None:
    """Where the packages are, tasks get the writer and planners the data source, with what belongs to them."""
    writer = BatchWriter(WriteOptions.parse(OPTIONS), "job", None)
    restored = cloudpickle.loads(cloudpickle.dumps(writer))  # type: ignore[no-untyped-call]
    assert type(restored) is BatchWriter
    assert vars(restored) == vars(writer)
    registered = cloudpickle.loads(
        cloudpickle.dumps(import_guard.guarded_source(RtaDataSource, metrics="counters"))  # type: ignore[no-untyped-call]
    )
    source = registered(options={"redisUrl": "redis://nowhere", "stream": "rig"})
    assert (registered.name(), type(source), source.metrics) == ("rta", RtaDataSource, "counters")
    assert isinstance(source.schema(), sql.StructType)
