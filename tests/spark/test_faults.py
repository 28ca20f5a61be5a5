"""Everything that makes Spark write a row twice: each row stands there once all the same, and twice by plain XADD."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_writers.spark.driver import ROWS_PER_BATCH
from tests.spark import frames
from tests.support import stream_content

GROUP_ROWS = 4096
SOAK = bool(os.environ.get("RTA_SOAK"))


def session_rows(client: redis.Redis, session: rta_writers.Session) -> frames.Rows:
    return stream_content.samples(client, session.target.stream, session.target.stream_session_id)


def check(rows: frames.Rows, expected: frames.Rows, delivery: str) -> None:
    """Each row once; where that is not promised each at least once, and some twice: else nothing was injected."""
    if delivery == "at-least-once":
        assert sorted(set(rows)) == expected
        assert len(rows) > len(expected)
    else:
        assert rows == expected


@pytest.mark.parametrize("delivery", ["exactly-once", "staged", "at-least-once"])
def test_tasks_that_fail_late_are_tried_again(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    tmp_path: Path,
    delivery: str,
) -> None:
    """Both tasks die after their first group was sent."""
    marker, group = str(tmp_path), GROUP_ROWS

    def fail_once_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a worker

        context = TaskContext.get()
        assert context is not None
        rows_seen = 0
        for batch in batches:
            rows_seen += batch.num_rows
            yield batch
            if context.attemptNumber() == 0 and rows_seen > 2 * group:
                Path(marker, str(context.partitionId())).touch()
                raise RuntimeError("injected")

    rows = 5 * group
    batch_rows = spark.conf.get(ROWS_PER_BATCH)
    request.addfinalizer(lambda: spark.conf.set(ROWS_PER_BATCH, str(batch_rows)))
    spark.conf.set(ROWS_PER_BATCH, str(group))
    with sessions.session("run-1", stream="rig") as session:
        failing = frames.long(spark, rows).mapInArrow(fail_once_late, frames.SCHEMA)
        options = {**session.options, "delivery": delivery, "groupRows": str(group)}
        failing.write.format("rta").mode("append").options(**options).save()
    assert len(list(tmp_path.iterdir())) == 2, "the fault was not injected"
    check(session_rows(client, session), frames.rows(rows), delivery)


def run_query(frame: DataFrame, session: rta_writers.Session, work: Path, **options: str) -> None:
    query = (
        frame.writeStream.format("rta")
        .option("checkpointLocation", str(work / "checkpoint"))
        .options(**session.options, **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def tear_last_commit(work: Path) -> int:
    """As if the driver had been killed after the last epoch was written and before Spark noted that."""
    commits = work / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.iterdir():
        if path.name in (str(last), f".{last}.crc"):
            path.unlink()
    return last


@pytest.mark.parametrize("delivery", ["exactly-once", "staged", "at-least-once"])
def test_every_epoch_is_replayed(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path, delivery: str
) -> None:
    """A file at a time: after each epoch the commit is torn off the checkpoint, so that Spark writes it again."""
    files = 6 if SOAK else 2
    frames.land(tmp_path / "landed", 900 * files, files)
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema(frames.SCHEMA).parquet(str(tmp_path / "in"))
    with sessions.session("run-1", stream="rig") as session:
        for epoch, path in enumerate(sorted((tmp_path / "landed").iterdir())):
            path.rename(tmp_path / "in" / path.name)
            run_query(source, session, tmp_path, delivery=delivery)
            assert tear_last_commit(tmp_path) == epoch
            run_query(source, session, tmp_path, delivery=delivery)
    check(session_rows(client, session), frames.rows(900 * files), delivery)


def repartitioned(spark: SparkSession, work: Path, partitions: int) -> DataFrame:
    source = spark.readStream.schema(frames.SCHEMA).parquet(str(work / "in"))
    return rta_writers.deterministic(source, partitions=partitions)


def test_a_replay_in_other_partitions_is_refused_and_a_staged_one_is_not(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Other partitions give a unit other rows: exactly-once refuses them, and accepts the old number of partitions."""
    frames.land(tmp_path / "in", 1000, 1)
    with sessions.session("run-1", stream="rig") as session:
        run_query(repartitioned(spark, tmp_path, 3), session, tmp_path)
        tear_last_commit(tmp_path)
        with pytest.raises(PySparkException, match="repeats epoch 0 with other rows"):
            run_query(repartitioned(spark, tmp_path, 2), session, tmp_path)
        run_query(repartitioned(spark, tmp_path, 3), session, tmp_path)
    assert session_rows(client, session) == frames.rows(1000)
    staged = tmp_path / "staged"
    staged.mkdir()
    (tmp_path / "in").rename(staged / "in")
    with sessions.session("run-2", stream="rig") as session:
        run_query(repartitioned(spark, staged, 3), session, staged, delivery="staged")
        tear_last_commit(staged)
        run_query(repartitioned(spark, staged, 2), session, staged, delivery="staged")
    assert session_rows(client, session) == frames.rows(1000)


def test_a_named_job_that_is_run_again_adds_nothing(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A batch job of a frame that was shuffled and made deterministic, killed or not, can be started again."""
    with sessions.session("run-1", stream="rig") as session:
        for shuffle in (5, 3):
            frame = rta_writers.deterministic(frames.long(spark, 3000).repartition(shuffle), partitions=2)
            frame.write.format("rta").mode("append").options(**session.options, job="nightly").save()
    assert session_rows(client, session) == frames.rows(3000)
