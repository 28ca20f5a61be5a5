"""The ways in that need no data source work on every Spark from 3.5 on. `make compat` runs this on the older ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_writers.options.target import Target
from tests.compat.sessions import WRITTEN, any_spark, frame, open_session, written

__all__ = ["any_spark", "open_session"]


def test_partitions_are_written_once_however_often_they_fail(
    any_spark: SparkSession, open_session: Target, tmp_path: Path
) -> None:
    """`foreachPartition` with rows: the first attempt of each task dies when all of its rows stand there."""
    options = {**open_session.options(), "job": "nightly"}
    marker = str(tmp_path)

    def write(rows: Iterator[Any]) -> None:
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a worker

        rta_writers.write_partition(rows, **options)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            Path(marker, str(context.partitionId())).touch()
            raise RuntimeError("injected")

    frame(any_spark).foreachPartition(write)
    assert len(list(tmp_path.iterdir())) == 2, "the fault was not injected"
    assert written(open_session) == WRITTEN


def test_arrow_batches_are_written(any_spark: SparkSession, open_session: Target) -> None:
    """`mapInArrow` on a Spark without Arrow writers, in wide form with names."""
    options = {**open_session.options(), "job": "wide", "channels": "a=1,b=2"}

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [rta_writers.write_partition(batches, **options).effort.rows]})

    wide = any_spark.range(0, 100, 1, 2).selectExpr("id time", "id / 2D a", "cast(id as double) b")
    assert sum(row.rows for row in wide.mapInArrow(write, "rows bigint").collect()) == 100
    assert written(open_session) == sorted([(1, n, n / 2) for n in range(100)] + [(2, n, float(n)) for n in range(100)])


def test_a_micro_batch_that_is_repeated_adds_nothing(
    any_spark: SparkSession, open_session: Target, tmp_path: Path
) -> None:
    """`foreachBatch`: the query's id and the number of the batch name the unit, so a replay is a duplicate."""
    options = open_session.options()
    frame(any_spark).write.parquet(str(tmp_path / "in"))
    calls = []

    def write_batch(batch: DataFrame, epoch: int) -> None:
        job = {**options, "job": "live", "epoch": str(epoch)}
        calls.append(epoch)

        def write(rows: Iterator[Any]) -> None:
            rta_writers.write_partition(rows, **job)

        batch.foreachPartition(write)
        if len(calls) == 1:
            raise RuntimeError("injected")

    for attempt in range(2):
        source = any_spark.readStream.schema("channel int, time bigint, value double").parquet(str(tmp_path / "in"))
        query = (
            source.writeStream.foreachBatch(write_batch)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        if attempt == 0:
            with pytest.raises(Exception, match="injected"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert calls == [0, 0], "the batch was not repeated"
    assert written(open_session) == WRITTEN
