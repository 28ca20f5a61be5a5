"""Frames for tests, and what they hold."""

from pyspark.sql import DataFrame, SparkSession

from tests.support import samples

Rows = list[tuple[int, int, float]]


def long(spark: SparkSession, rows: int, *, partitions: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, partitions).selectExpr(
        "cast(id % 7 as int) channel", f"{samples.START_NS} + id * 1000 time", "id / 4D value"
    )


def rows(count: int) -> Rows:
    return sorted((n % 7, samples.START_NS + n * 1000, n / 4) for n in range(count))


def collected(frame: DataFrame) -> Rows:
    return sorted((row.channel, row.time, row.value) for row in frame.collect())
