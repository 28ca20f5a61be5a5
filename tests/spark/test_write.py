"""The data source `rta` on a real Spark: rows in are rows in the stream, once."""

from pathlib import Path

import pyspark_rta
import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_wire import errors
from rta_writers.spark import driver as rta_spark
from tests.support import samples, waiting

ROWS = 30_000


def frame(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "cast(id % 7 as int) channel", f"{samples.START_NS} + id * 1000 time", "id / 4D value"
    )


def expected(rows: int = ROWS) -> list[tuple[int, int, float]]:
    return sorted((n % 7, samples.START_NS + n * 1000, n / 4) for n in range(rows))


def test_a_batch_arrives_once(spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Every row of a frame stands in the stream, bit by bit, and the session knows how many there are."""
    with sessions.session("run-1", stream="rig") as session:
        frame(spark).write.format("rta").mode("append").options(**session.options).save()
    assert sorted(samples.rows(client, "rig")) == expected()
    assert session.ended is not None
    assert (session.ended.state, session.ended.totals.samples) == ("closed", ROWS)


def test_two_saves_into_one_session_are_two_sets_of_rows(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Appending the same frame again is what was asked for, not a duplicate."""
    with sessions.session("run-1", stream="rig") as session:
        for _ in range(2):
            frame(spark, 100).write.format("rta").mode("append").options(**session.options).save()
    assert sorted(samples.rows(client, "rig")) == sorted(expected(100) * 2)


def test_timestamps_and_small_types_are_taken(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A Spark timestamp becomes ns, whole numbers become doubles, a null value is no sample."""
    rows = spark.sql(
        "select * from values (tinyint(3), timestamp'2026-01-01 00:00:00.000001', 5), "
        "(tinyint(3), timestamp'2026-01-01 00:00:01', null) as t(channel, time, value)"
    )
    with sessions.session("run-1", stream="rig") as session:
        rows.write.format("rta").mode("append").options(**session.options).save()
    assert samples.rows(client, "rig") == [(3, 1_767_225_600_000_001_000, 5.0)]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("cast(id as int) channel, id time", "needs a column 'value'"),
        ("cast(id as string) channel, id time, 1D value", "Column 'channel' is string"),
        ("cast(id as int) channel, id time, 1D value, 2 extra", "does not know the column 'extra'"),
        ("cast(id as int) channel, date'2026-01-01' time, 1D value", "Column 'time' is date32"),
    ],
)
def test_a_wrong_frame_is_refused_before_any_task(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, select: str, message: str
) -> None:
    """The sentence names the column and nothing is written. The frame is empty: no task could find out."""
    with sessions.session("run-1", stream="rig") as session:
        writer = spark.range(0).selectExpr(*select.split(", ")).write.format("rta").mode("append")
        with pytest.raises(PySparkException, match=message):
            writer.options(**session.options).save()
    assert samples.rows(client, "rig") == []


def test_missing_options_are_named(spark: SparkSession) -> None:
    """The sentence tells to pass the options of an open session."""
    with pytest.raises(PySparkException, match=r"options\(\*\*session.options\)"):
        frame(spark, 3).write.format("rta").mode("append").save()


def test_options_of_a_query_are_checked_before_it_starts(
    spark: SparkSession, sessions: rta_writers.SessionClient
) -> None:
    """`check` raises what a writer would refuse without a query, for any option."""
    rate = spark.readStream.format("rate").load()
    stream = rate.selectExpr("cast(value as int) channel", "value time", "1D value")
    with sessions.session("run-1", stream="rig") as session:
        options = {**session.options, "checkpointLocation": "/nowhere", "wait": True}
        rta_writers.check(stream, **options)
        with pytest.raises(errors.Usage, match=r"no option 'sampletyp'\. Did you mean 'sampleType'"):
            rta_writers.check(stream, **options, sampletyp="float")
        with pytest.raises(errors.Usage, match="needs a column 'channel'"):
            rta_writers.check(rate, **options, form="long")
    with pytest.raises(errors.SessionClosed):
        rta_writers.check(stream, **options)


def test_start_raises_what_the_writer_of_a_query_would_refuse(
    spark: SparkSession, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """In the thread that calls it, however format and options were given; queries into other sinks are left alone."""
    rate = spark.readStream.format("rate").load()
    stream = rate.selectExpr("cast(value as int) channel", "value time", "1D value")
    with sessions.session("run-1", stream="rig") as session:
        options = {**session.options, "checkpointLocation": str(tmp_path)}
        with pytest.raises(errors.Usage, match=r"no option 'sampletyp'\. Did you mean 'sampleType'"):
            stream.writeStream.format("rta").options(**options).option("sampletyp", "float").start()
        with pytest.raises(errors.Usage, match="Option 'sampleType'"):
            stream.writeStream.options(**options).start(format="RTA", sampleType="complex")
        with pytest.raises(errors.Usage, match="needs a column 'channel'"):
            rate.writeStream.options(**options, form="long").start(None, "rta")
        # Spark takes names of options in any case.
        query = stream.writeStream.format("rta").options(**options, SAMPLETYPE="float").start()
        query.stop()
        assert query.exception() is None
        stream.writeStream.format("noop").option("sampletyp", "float").start().stop()
    with pytest.raises(errors.SessionClosed):
        stream.writeStream.format("rta").options(**options).start()
    assert spark.streams.active == []


def test_real_time_mode_refuses_the_sink(
    spark: SparkSession, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Spark lists the sinks that may run in real-time mode, and none in Python is among them."""
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as int) channel", "value time", "1D value")
    with sessions.session("run-1", stream="rig") as session:
        query = stream.writeStream.format("rta").outputMode("update").options(**session.options)
        query = query.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 minutes")  # type: ignore[call-overload]
        with pytest.raises(PySparkException, match="PythonTable is not in the sink allowlist"):
            query.start()


def test_overwriting_is_refused(spark: SparkSession, sessions: rta_writers.SessionClient) -> None:
    """A stream can't be overwritten."""
    with (
        sessions.session("run-1", stream="rig") as session,
        pytest.raises(PySparkException, match="only appends"),
    ):
        frame(spark, 3).write.format("rta").mode("overwrite").options(**session.options).save()


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("-1 channel, 1L time, 1D value", "row 0 in .*: the channel does not fit uint32: -1"),
        ("cast(null as int) channel, 1L time, 1D value", "row 0 in .*: the channel is null"),
        ("1 channel, cast(null as bigint) time, 1D value", "row 0 in .*: the time is null"),
    ],
)
def test_a_bad_row_fails_its_task_with_the_reason(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, select: str, message: str
) -> None:
    """Nothing is dropped: the job fails and says why."""
    session = sessions.session("run-1", stream="rig")
    writer = spark.range(1).selectExpr(*select.split(", ")).write.format("rta").mode("append")
    with pytest.raises(PySparkException, match=message):
        writer.options(**session.options).save()
    session.close(state="failed")
    assert samples.rows(client, "rig") == []


def test_a_closed_session_takes_no_rows(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A job that comes too late fails with the name of the session."""
    session = sessions.session("run-1", stream="rig")
    session.close()
    with pytest.raises(PySparkException, match="'run-1' is closed"):
        frame(spark, 3).write.format("rta").mode("append").options(**session.options).save()
    assert samples.rows(client, "rig") == []


def test_a_query_writes_a_stream_for_each_partition_of_its_source(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Rows of two topics, as Kafka's source names them, over several micro-batches."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 2).load()
    rows = source.selectExpr(
        "'_cars' topic",
        "cast(value % 2 as int) partition",
        "concat('car-', value % 4) session",
        "1 channel",
        "value time",
        "value / 4D value",
    )
    with rta_writers.sessions(sessions, stream="{topic}-{partition}") as group:
        writer = rows.writeStream.format("rta").options(**group.options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            waiting.wait_until(lambda: query.exception() is not None or len(query.recentProgress) >= 2, timeout_s=60)
        finally:
            query.stop()
    assert sorted(group.ended) == [f"car-{number}" for number in range(4)]
    count = sum(ended.totals.samples for ended in group.ended.values())
    assert count >= 20
    for partition in range(2):
        numbers = range(partition, count, 2)
        assert sorted(samples.rows(client, f"0x_cars-{partition}")) == [(1, n, n / 4) for n in numbers]


def test_a_wide_frame_names_its_streams(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """By a column `stream`, in a batch."""
    names = "concat('lap-', id) session", "concat('rig-', id % 2) stream"
    rows = spark.range(0, 4, 1, 2).selectExpr(*names, "id time", "id / 4D rpm", "id * 2 speed")
    with rta_writers.sessions(sessions) as group:
        rows.write.format("rta").mode("append").options(**group.options, channels="rpm=1,speed=2").save()
    for number in range(2):
        expected_rows = [(1, n, n / 4) for n in (number, number + 2)] + [(2, n, n * 2.0) for n in (number, number + 2)]
        assert sorted(samples.rows(client, f"rig-{number}")) == expected_rows


def test_spark_is_tuned_where_its_user_has_not(spark: SparkSession) -> None:
    """Values of a user's own stay; ours can be changed by us again, for wide frames."""
    other = spark.newSession()
    other.conf.set(rta_spark.ROWS_PER_BATCH, "1234")
    assert set(rta_writers.tune(other)) == {rta_spark.BYTES_PER_BATCH, rta_spark.FILTERS}
    assert other.conf.get(rta_spark.ROWS_PER_BATCH) == "1234"
    assert rta_writers.tune(spark, columns=101)[rta_spark.ROWS_PER_BATCH] == "16336"
    assert spark.conf.get(rta_spark.CODEGEN_FIELDS) == "202"
    assert rta_writers.tune(spark, columns=5001)[rta_spark.ROWS_PER_BATCH] == "512"
    # One method for so many columns takes more than the heap.
    assert spark.conf.get(rta_spark.CODEGEN_FIELDS) == "100"
    rta_writers.register(spark)
    assert spark.conf.get(rta_spark.ROWS_PER_BATCH) == "512", "registered again, which undid it"
    assert rta_writers.tune(spark)[rta_spark.ROWS_PER_BATCH] == "131072"


def test_the_source_is_found_without_registration(spark: SparkSession, sessions: rta_writers.SessionClient) -> None:
    """Spark looks for modules called pyspark_ by itself. Filters reach the reader where the session lets them."""
    assert pyspark_rta.DefaultSource.name() == "rta"
    with sessions.session("run-1", stream="rig") as session:
        other = spark.newSession()
        frame(other, 10).write.format("rta").mode("append").options(**session.options).save()
        options = {"redisUrl": session.options["redisUrl"], "stream": "rig", "pushFilters": "true"}
        for is_enabled in ("true", "false"):
            other.conf.set(rta_spark.FILTERS, is_enabled)
            third = other.read.format("rta").options(**options).load().where("channel = 3")
            assert third.count() == 1
            plan = third._jdf.queryExecution().executedPlan().toString()
            assert ("Filter (" in plan) == (is_enabled == "false"), plan
    assert session.ended is not None
    assert session.ended.totals.samples == 10
