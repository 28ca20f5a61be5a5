"""Everything that makes Spark write a row twice: each row stands there once all the same, and twice by plain XADD."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_writers.spark import ROWS_PER_BATCH
from tests.spark import frames
from tests.support import samples, stored
from tests.support.waiting import wait_until

SCHEMA = "channel int, time bigint, value double"
GROUP_ROWS = 4096
SOAK = bool(os.environ.get("RTA_SOAK"))
ROOT = Path(__file__).parents[2]


def found(client: redis.Redis, session: rta_writers.Session) -> frames.Rows:
    return stored.samples(client, session.target.stream, session.target.stream_session_id)


def check(rows: frames.Rows, wanted: frames.Rows, delivery: str) -> None:
    """Each row once; where that is not promised each at least once, and some twice: else nothing was injected."""
    if delivery == "at-least-once":
        assert sorted(set(rows)) == wanted
        assert len(rows) > len(wanted)
    else:
        assert rows == wanted


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
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            yield batch
            if context.attemptNumber() == 0 and seen > 2 * group:
                Path(marker, str(context.partitionId())).touch()
                raise RuntimeError("injected")

    rows = 5 * group
    batch_rows = spark.conf.get(ROWS_PER_BATCH)
    request.addfinalizer(lambda: spark.conf.set(ROWS_PER_BATCH, str(batch_rows)))
    spark.conf.set(ROWS_PER_BATCH, str(group))
    with sessions.session("run-1", stream="rig") as session:
        failing = frames.long(spark, rows).mapInArrow(fail_once_late, SCHEMA)
        options = {**session.options, "delivery": delivery, "groupRows": str(group)}
        failing.write.format("rta").mode("append").options(**options).save()
    assert len(list(tmp_path.iterdir())) == 2, "the fault was not injected"
    check(found(client, session), frames.rows(rows), delivery)


def land(folder: Path, rows: int, files: int) -> None:
    """Files in the order of their names, as a recorder leaves them."""
    folder.mkdir()
    table = pa.table(dict(zip(("channel", "time", "value"), zip(*frames.rows(rows), strict=True), strict=True)))
    table = table.set_column(0, "channel", table.column("channel").cast(pa.int32()))
    for number in range(files):
        part = table.slice(rows * number // files, rows * (number + 1) // files - rows * number // files)
        path = folder / f"{number:03}.parquet"
        pyarrow.parquet.write_table(part, path)
        os.utime(path, (number, number))


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
    land(tmp_path / "landed", 900 * files, files)
    (tmp_path / "in").mkdir()
    source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    with sessions.session("run-1", stream="rig") as session:
        for epoch, path in enumerate(sorted((tmp_path / "landed").iterdir())):
            path.rename(tmp_path / "in" / path.name)
            run_query(source, session, tmp_path, delivery=delivery)
            assert tear_last_commit(tmp_path) == epoch
            run_query(source, session, tmp_path, delivery=delivery)
    check(found(client, session), frames.rows(900 * files), delivery)


def divided(spark: SparkSession, work: Path, partitions: int) -> DataFrame:
    source = spark.readStream.schema(SCHEMA).parquet(str(work / "in"))
    return rta_writers.deterministic(source, partitions=partitions)


def test_a_replay_in_other_partitions_is_refused_and_a_staged_one_is_not(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """The rows of a unit are others now: exactly-once says so and mixes nothing; with the old number it goes on."""
    land(tmp_path / "in", 1000, 1)
    with sessions.session("run-1", stream="rig") as session:
        run_query(divided(spark, tmp_path, 3), session, tmp_path)
        tear_last_commit(tmp_path)
        with pytest.raises(PySparkException, match="repeats epoch 0 with other rows"):
            run_query(divided(spark, tmp_path, 2), session, tmp_path)
        run_query(divided(spark, tmp_path, 3), session, tmp_path)
    assert found(client, session) == frames.rows(1000)
    staged = tmp_path / "staged"
    staged.mkdir()
    (tmp_path / "in").rename(staged / "in")
    with sessions.session("run-2", stream="rig") as session:
        run_query(divided(spark, staged, 3), session, staged, delivery="staged")
        tear_last_commit(staged)
        run_query(divided(spark, staged, 2), session, staged, delivery="staged")
    assert found(client, session) == frames.rows(1000)


def test_a_named_job_that_is_run_again_adds_nothing(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A batch job of a frame that was shuffled and made deterministic, killed or not, can be started again."""
    with sessions.session("run-1", stream="rig") as session:
        for shuffle in (5, 3):
            frame = rta_writers.deterministic(frames.long(spark, 3000).repartition(shuffle), partitions=2)
            frame.write.format("rta").mode("append").options(**session.options, job="nightly").save()
    assert found(client, session) == frames.rows(3000)


def spawn(url: str, work: Path, delivery: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "tests" / "spark" / "stream_job.py"), url, "rig", str(work), delivery]
    with (work / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.timeout(300)
def test_a_driver_is_killed_and_restarted(
    spark: SparkSession, url: str, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """kill -9 of driver and executors in the middle of the query, then again from the checkpoint: each row once."""
    assert spark.version
    rows, files = 80_000, 8
    land(tmp_path / "in", rows, files)
    kills = 5 if SOAK else 1
    for kill in range(kills):
        job = spawn(url, tmp_path, "exactly-once")
        wanted = rows * (kill + 1) // (kills + 2)
        wait_until(lambda: written(client) > wanted or job.poll() is not None, timeout_s=120, what="rows")  # noqa: B023
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        assert 0 < written(client) < rows, "it was not killed in the middle"
    job = spawn(url, tmp_path, "exactly-once")
    assert job.wait(180) == 0, (tmp_path / "log").read_text()[-3000:]
    number: Any = client.hget("sessions:run-1", "streamSessionId")
    assert stored.samples(client, "rig", int(number)) == frames.rows(rows)
    assert sessions.url == url


def written(client: redis.Redis) -> int:
    return sum(
        int(text.split()[3])
        for name in client.scan_iter(match="rtas:dd:*", _type="hash")
        for text in cast("list[bytes]", client.hvals(name))
    )


def test_times_of_every_kind_keep_their_nanoseconds(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Bigint carries every nanosecond, a timestamp its microseconds, whatever the zone of the session."""
    at = samples.START_NS
    frame = spark.sql(f"select 1 channel, {at + 1}L time, 0.25BD value")
    stamp = spark.sql(f"select 2 channel, timestamp_micros({at // 1000 + 1}) time, 7 value")
    with sessions.session("run-1", stream="rig") as session:
        for one in (frame, stamp):
            one.write.format("rta").mode("append").options(**session.options).save()
    assert found(client, session) == [(1, at + 1, 0.25), (2, at + 1000, 7.0)]
