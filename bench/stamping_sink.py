"""A sink for Spark that looks at the clock when rows reach it: what any sink in Python has to wait for."""

import functools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

import rta_writers
from bench import parts

NAME = "stamping"


class StampingWriter(DataSourceStreamArrowWriter):
    """Notes when a micro-batch began, by the times of its rows, and when they came."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for batch in iterator:
            came_ns = time.time_ns()
            with (Path(self._folder) / str(os.getpid())).open("a") as stamps:
                stamps.write(f"{batch.column('time')[0].as_py()} {came_ns}\n")
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do."""


class StampingSink(DataSource):
    """`format("stamping")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        return StampingWriter(self.options["folder"])


@functools.cache
def ready() -> None:
    """Both sinks are known to Spark."""
    rta_writers.register(parts.spark())
    parts.spark().dataSource.register(StampingSink)


def read_stamps(folder: Path) -> list[tuple[int, int]]:
    """When each part of a micro-batch began, and when it came."""
    lines = [line.split() for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [(int(began_ns), int(came_ns)) for began_ns, came_ns in lines]
