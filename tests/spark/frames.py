"""Frames for tests, and what they hold."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from tests.support import samples

SCHEMA = "channel int, time bigint, value double"

Rows = list[tuple[int, int, float]]


def long(spark: SparkSession, rows: int, *, partitions: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, partitions).selectExpr(
        "cast(id % 7 as int) channel", f"{samples.START_NS} + id * 1000 time", "id / 4D value"
    )


def rows(count: int) -> Rows:
    return sorted((n % 7, samples.START_NS + n * 1000, n / 4) for n in range(count))


def collected(frame: DataFrame) -> Rows:
    return sorted((row.channel, row.time, row.value) for row in frame.collect())


def land(folder: Path, count: int, files: int) -> None:
    """Files in the order of their names, as a recorder leaves them."""
    folder.mkdir()
    table = pa.table(dict(zip(("channel", "time", "value"), zip(*rows(count), strict=True), strict=True)))
    table = table.set_column(0, "channel", table.column("channel").cast(pa.int32()))
    for number in range(files):
        part = table.slice(count * number // files, count * (number + 1) // files - count * number // files)
        path = folder / f"{number:03}.parquet"
        pyarrow.parquet.write_table(part, path)
        os.utime(path, (number, number))
