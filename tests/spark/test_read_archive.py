"""A session on a real Spark, of which the archive has the beginning: in batch and as a stream."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import entry_ids, keys
from rta_writers.control import configs
from rta_writers.options.read import ReadOptions
from rta_writers.read import archive_files
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader
from tests.support import archive_job_without_spark, commands, samples
from tests.support.channel_lists import ENGINE

WORKER_LOGS = "spark.sql.pyspark.worker.logging.enabled"
"""Whether Spark keeps what its Python processes log."""


def add(session: rta_writers.Session, step: int) -> None:
    times = [samples.START_NS + step * 1000 + row for row in range(100)]
    with rta_writers.BurstWriter(session.options, unit=f"u{step}") as writer:
        writer.samples([row % 4 for row in range(100)], times, [float(step * 100 + row) for row in range(100)])


def test_a_session_is_one_frame_and_one_stream(
    spark: SparkSession,
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts that Redis no longer has, then what is live; a query goes on from there. All is found once more after Redis
    has forgotten it."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    session = sessions.open("run-1", stream="rig")
    archive = tmp_path / "archive"
    for step in range(2):
        add(session, step)
        assert commands.run(url, "archive", "--path", str(archive)).code == 0
    [folder] = archive.glob("date=*/source=*/session=*")
    until = archive_files.read_folder(folder, "run-1").archive.until
    client.xtrim("stream:rig", minid=entry_ids.next_id(until), approximate=False)
    add(session, 2)
    options = {"redisUrl": url, "session": "run-1", "archive": str(archive)}
    frame = spark.read.format("rta").options(**options).load()
    assert sorted(row.value for row in frame.collect()) == [float(value) for value in range(300)]
    pushed = spark.read.format("rta").options(**options, pushFilters="true").load()
    few = pushed.where(f"channel = 2 and time < {samples.START_NS + 1000}")
    spark.conf.set(WORKER_LOGS, "true")
    try:
        assert sorted(row.value for row in few.collect()) == [float(value) for value in range(2, 100, 4)]
        logged = [row.msg for row in spark.tvf.python_worker_logs().collect()]
    finally:
        spark.conf.unset(WORKER_LOGS)
    assert "archive of session 'run-1': 1 of 2 parts, 1 of 2 files, 0 of 0 row groups read" in logged
    assert "archive of session 'run-1', one task: 1 of 1 parts, 1 of 1 files, 1 of 1 row groups read" in logged

    def run_query() -> list[float]:
        query = spark.readStream.format("rta").options(**options, maxEntriesPerTrigger="1").load().writeStream
        query = query.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.option("path", str(tmp_path / "out")).trigger(availableNow=True).start().awaitTermination()
        return sorted(row.value for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert run_query() == [float(value) for value in range(300)]
    add(session, 3)
    assert run_query() == [float(value) for value in range(400)]
    session.close()
    assert commands.run(url, "archive", "--path", str(archive), "--session", "run-1").code == 0
    client.delete("stream:rig", "sessions:run-1")
    again = spark.read.format("rta").options(**options).load()
    assert sorted(row.value for row in again.collect()) == [float(value) for value in range(400)]


def test_a_query_ends_where_it_was_told_to(
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part that is added while it runs has later entries too: they are left to the next query."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    session = sessions.open("run-1", stream="rig")
    add(session, 0)
    assert commands.run(url, "archive", "--path", str(tmp_path)).code == 0
    add(session, 1)
    options = ReadOptions.parse(
        {"redisUrl": url, "session": "run-1", "archive": str(tmp_path), "maxEntriesPerTrigger": "1"}
    )
    reader = stream_reader.StreamReader(options, spark_reader.spark_schema(options))
    offset = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    newest: Any = client.xrevrange("stream:rig", count=1)
    add(session, 2)
    assert commands.run(url, "archive", "--path", str(tmp_path)).code == 0
    values = []
    while (end := reader.latestOffset(offset)) != offset:
        partitions = reader.partitions(offset, end)
        values += [value for one in partitions for batch in reader.read(one) for value in batch["value"].to_pylist()]
        offset = end
    assert offset["id"] == newest[0][0].decode()
    assert sorted(values) == [float(value) for value in range(200)]


def test_a_session_that_redis_forgot_has_its_names_and_types(
    spark: SparkSession,
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a stream and in wide form: the archive has its configuration, and samples are not doubles."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    channels = rta_writers.Channels(ENGINE)
    session = sessions.open("run-1", stream="rig", channels=channels)
    rows = pa.table(
        {
            "time": [samples.START_NS + row for row in range(4)],
            "rpm": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()),
            "gear": pa.array([1, None, 2, 3], pa.int8()),
        }
    )
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        writer.write(rows)
    session.close()
    archive = tmp_path / "archive"
    assert commands.run(url, "archive", "--path", str(archive), "--session", "run-1").code == 0
    client.delete("stream:rig", "sessions:run-1", keys.Keys().config(channels.identifier))
    configs.channel_list.cache_clear()
    options = {"redisUrl": url, "session": "run-1", "archive": str(archive)}
    query = spark.readStream.format("rta").options(**options).load().writeStream.format("memory")
    query.queryName("forgotten").trigger(availableNow=True).start().awaitTermination()
    found = spark.table("forgotten").select("name", "unit", "value").collect()
    assert sorted((row.name, row.unit, row.value) for row in found) == [
        *(("gear", "", value) for value in (1.0, 2.0, 3.0)),
        *(("rpm", "1/min", value) for value in (0.5, 1.5, 2.5, 3.5)),
    ]
    wide = spark.read.format("rta").options(**options, form="wide", columns="rpm, gear").load()
    assert wide.dtypes == [("time", "bigint"), ("rpm", "float"), ("gear", "tinyint")]
    assert [tuple(row) for row in wide.orderBy("time").collect()] == [tuple(row.values()) for row in rows.to_pylist()]
