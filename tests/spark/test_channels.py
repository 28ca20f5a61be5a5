"""Channels with names on a real Spark: written and read by them in every form."""

import functools
from collections.abc import Iterable
from pathlib import Path

import anyio
import pyarrow as pa
import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import errors
from rta_wire.channels import files
from rta_wire.codec.layout import SampleType
from rta_writers.control import configs
from tests.support import archive_job_without_spark, cold_streams, commands, samples
from tests.support.channel_lists import ENGINE

ROWS = 500
NAMES = ("rpm", "speed", "gear")


@pytest.fixture
def engine(tmp_path: Path) -> rta_writers.Channels:
    """A list as people write it."""
    path = tmp_path / "engine.toml"
    path.write_text(files.dump(ENGINE, files.FileForm.TOML))
    return rta_writers.Channels.load(path)


def wide_frame(spark: SparkSession) -> DataFrame:
    """A row per time; the gear is null in every second one."""
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "cast(if(id % 2 = 0, id % 8, null) as tinyint) gear",
        f"{samples.START_NS} + id * 1000 time",
        "cast(id * 1.5 as float) rpm",
        "id / 4D speed",
    )


def long_frame(spark: SparkSession, channel: str) -> DataFrame:
    """The rows of the wide frame, with their channels by name or by id."""
    ids = {name: ENGINE.by_name[name].id for name in NAMES}
    parts = [
        wide_frame(spark).selectExpr(
            f"'{name}' channel" if channel == "name" else f"{ids[name]} channel",
            "time",
            f"cast({name} as double) value",
        )
        for name in NAMES
    ]
    return parts[0].union(parts[1]).union(parts[2]).where("value is not null")


def rows_frame(spark: SparkSession) -> DataFrame:
    """The rows of the wide frame as messages of row data."""
    return wide_frame(spark).selectExpr(
        "time",
        "if(gear is null, array(1, 2), array(1, 2, 3)) channels",
        "if(gear is null, array(double(rpm), speed), array(double(rpm), speed, double(gear))) values",
    )


def expected() -> list[tuple[str, int, float]]:
    rows = [(name, samples.START_NS + n * 1000, value) for n in range(ROWS) for name, value in _values(n)]
    return sorted(rows)


def _values(n: int) -> list[tuple[str, float]]:
    return [("rpm", n * 1.5), ("speed", n / 4), *([("gear", float(n % 8))] if n % 2 == 0 else [])]


def read_back(spark: SparkSession, url: str, session: str = "run-1", **options: str) -> DataFrame:
    return spark.read.format("rta").options(redisUrl=url, session=session, **options).load()


def save(frame: DataFrame, session: rta_writers.Session, **options: str) -> None:
    frame.write.format("rta").mode("append").options(**session.options, **options).save()


def check_read_back(spark: SparkSession, url: str, sessions: Iterable[str], **options: str) -> None:
    """Sessions are what was written, by names, units and types, in long form and in wide form."""
    reads = [read_back(spark, url, session, **options) for session in sessions]
    assert all(
        read.columns == ["session", "stream_session_id", "channel", "time", "value", "name", "unit"] for read in reads
    )
    rows = functools.reduce(DataFrame.union, reads).collect()
    for session in sessions:
        of_session = [row for row in rows if row.session == session]
        assert sorted((row.name, row.time, row.value) for row in of_session) == expected()
        units = {(1, "rpm", "1/min"), (2, "speed", "km/h"), (3, "gear", "")}
        assert {(row.channel, row.name, row.unit) for row in of_session} == units
    wide_reads = [read_back(spark, url, session, form="wide", **options) for session in sessions]
    wide_rows = functools.reduce(DataFrame.union, wide_reads).orderBy("time").collect()
    assert wide_rows == [
        row for row in wide_frame(spark).orderBy("time").select("time", *NAMES).collect() for _ in reads
    ]


def test_a_session_is_written_and_read_by_names(
    spark: SparkSession,
    url: str,
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    engine: rta_writers.Channels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every form, without a word about ids and types: live, then cold, then from the archive when Redis has none."""
    forms = {
        "wide": wide_frame(spark),
        "name": long_frame(spark, "name"),
        "id": long_frame(spark, "id"),
        "rows": rows_frame(spark),
    }
    for form, frame in forms.items():
        with sessions.session(form, stream="rig", channels=engine) as session:
            save(frame, session)
    check_read_back(spark, url, forms)
    pushed = {"pushFilters": "true"}
    assert read_back(spark, url, "rows", **pushed).where("name = 'gear'").count() == ROWS // 2
    assert read_back(spark, url, "id", **pushed).where("name in ('gear', 'rpm') and channel > 2").count() == ROWS // 2
    anyio.run(cold_streams.compact_now, url)
    assert client.xlen("stream:rig") == 0
    check_read_back(spark, url, forms)
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    archive = {"archive": str(tmp_path / "archive")}
    assert commands.run(url, "archive", "--path", archive["archive"]).code == 0
    client.delete("stream:rig", "cold:rig", f"rtas:config:{engine.identifier}", *(f"sessions:{form}" for form in forms))
    configs.channel_list.cache_clear()
    check_read_back(spark, url, forms, **archive)


def test_a_wide_read_gives_back_what_was_written(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient, engine: rta_writers.Channels
) -> None:
    """A column per channel in its own type, one row per time, nulls where there is no sample; on a grid the last sample
    until each of its points. In one task or in several."""
    frame = wide_frame(spark)
    with sessions.session("run-1", stream="rig", channels=engine) as session:
        save(frame, session)
    columns = ["time", "rpm", "speed", "gear"]
    rows = frame.select(columns).orderBy("time").collect()
    for partitions in ("1", "3"):
        read = read_back(spark, url, form="wide", partitions=partitions)
        pushed = read_back(spark, url, form="wide", partitions=partitions, pushFilters="true")
        assert read.dtypes == [("time", "bigint"), ("rpm", "float"), ("speed", "double"), ("gear", "tinyint")]
        assert read.orderBy("time").collect() == rows
        first_ns = samples.START_NS + 10_000
        assert pushed.where(f"time >= {first_ns} and gear is not null").count() == (ROWS - 10) // 2
        check_grid(spark, url, 3500, partitions)
    chosen = read_back(spark, url, form="wide", columns="gear, rpm")
    assert chosen.columns == ["time", "gear", "rpm"]
    with pytest.raises(PySparkException, match="Did you mean 'rpm'"):
        read_back(spark, url, form="wide", columns="rmp")


def check_grid(spark: SparkSession, url: str, grid_ns: int, partitions: str) -> None:
    read = read_back(spark, url, form="wide", gridNs=str(grid_ns), partitions=partitions)
    rows = read.orderBy("time").collect()
    assert all(row.time % grid_ns == 0 for row in rows)
    assert rows[0].time - grid_ns < samples.START_NS <= rows[0].time
    assert rows[-1].time - grid_ns < samples.START_NS + (ROWS - 1) * 1000 <= rows[-1].time
    assert len(rows) == (rows[-1].time - rows[0].time) // grid_ns + 1
    for row in rows:
        n = min((row.time - samples.START_NS) // 1000, ROWS - 1)
        assert (row.rpm, row.speed, row.gear) == (n * 1.5, n / 4, (n - n % 2) % 8)
    pushed = read_back(spark, url, form="wide", gridNs=str(grid_ns), partitions=partitions, pushFilters="true")
    assert pushed.where(f"time = {rows[5].time}").collect() == [rows[5]]


def test_a_streaming_query_has_names(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient, engine: rta_writers.Channels
) -> None:
    """Of a whole stream, where asked for: sessions with a configuration by names, others without."""
    session = sessions.open("run-1", stream="rig", channels=engine)
    wide_frame(spark).write.format("rta").mode("append").options(**session.options).save()
    with sessions.session("run-2", stream="rig") as other:
        long_frame(spark, "id").write.format("rta").mode("append").options(**other.options).save()
    assert "name" not in spark.read.format("rta").options(redisUrl=url, stream="rig").load().columns
    stream = spark.readStream.format("rta").options(redisUrl=url, stream="rig", names="true").load()
    query = stream.writeStream.format("memory").queryName("named_rows").trigger(availableNow=True)
    query.start().awaitTermination()
    rows = spark.table("named_rows").collect()
    assert sorted((row.name, row.time, row.value) for row in rows if row.session == "run-1") == expected()
    assert len([row for row in rows if row.session == "run-2" and row.name is None]) == len(expected())
    session.close()
    wide = spark.readStream.format("rta").options(redisUrl=url, session="run-1", form="wide").load()
    with pytest.raises(PySparkException, match="A streaming query can't read in form 'wide'"):
        wide.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def test_columns_of_a_frame_become_channels(spark: SparkSession, url: str, sessions: rta_writers.SessionClient) -> None:
    """A job that starts again with more columns in another order keeps the ids it had; another type is refused."""
    frame = spark.sql("select 1L time, 2.5D b, true a, 7 c, cast(1.5 as decimal(9,2)) d")
    with sessions.session("run-1", stream="rig", channels=rta_writers.Channels.of(frame)) as session:
        frame.write.format("rta").mode("append").options(**session.options).save()
        assert session.channels is not None
        first = {channel.name: (channel.id, channel.type) for channel in session.channels}
        assert first == {
            "b": (1, SampleType.DOUBLE),
            "a": (2, SampleType.UINT8),
            "c": (3, SampleType.INT32),
            "d": (4, SampleType.DOUBLE),
        }
        more = spark.sql("select 5.5D z, 8 c, 2L time, 3.5D b")
        again = sessions.open("run-1", stream="rig", channels=rta_writers.Channels.of(more))
        more.write.format("rta").mode("append").options(**again.options).save()
        assert again.channels is not None
        assert {channel.name: channel.id for channel in again.channels} == {"b": 1, "a": 2, "c": 3, "d": 4, "z": 5}
        changed = spark.sql("select 1L time, 'x' c")
        with pytest.raises(errors.BadChannels, match="column 'c': a text is no sample"):
            rta_writers.Channels.of(changed)
        with pytest.raises(
            errors.ChannelConflict, match="Channel 'c' is known with type 'int32', and can't get type 'int64'"
        ):
            sessions.open("run-1", stream="rig", channels=rta_writers.Channels.of(spark.sql("select 1L time, 8L c")))
    rows = read_back(spark, url).collect()
    assert sorted((row.name, row.time, row.value) for row in rows) == [
        ("a", 1, 1.0),
        ("b", 1, 2.5),
        ("b", 2, 3.5),
        ("c", 1, 7.0),
        ("c", 2, 8.0),
        ("d", 1, 1.5),
        ("z", 2, 5.5),
    ]
    with sessions.session("run-2", stream="rig", channels=rta_writers.Channels.of(more)) as session:
        assert session.channels is not None
        assert session.channels["z"].id == 5  # of the stream


def test_what_differs_from_the_configuration_is_refused(
    spark: SparkSession, sessions: rta_writers.SessionClient, engine: rta_writers.Channels
) -> None:
    """Columns and options on the driver, before any task, since the frame is empty; a name in a row by its task."""
    with sessions.session("run-1", stream="rig", channels=engine) as session:
        empty = spark.sql("select 1L time, 1.5D rmp").limit(0)
        with pytest.raises(PySparkException, match=r"'rmp' .*is no channel of configuration .*Did you mean 'rpm'"):
            save(empty, session)
        with pytest.raises(PySparkException, match=r"'rpm' has the type double, .* says float"):
            save(empty.withColumnRenamed("rmp", "rpm"), session, sampleType="double")
        row = spark.sql("select 'gears' channel, 1L time, 1.5D value")
        with pytest.raises(PySparkException, match="Did you mean 'gear'"):
            save(row, session)


def test_sessions_that_rows_name_share_channels(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient, engine: rta_writers.Channels
) -> None:
    """Each session that a task opens is bound to the configuration of the group."""
    frame = wide_frame(spark).selectExpr("*", "concat('car-', time % 2) session", "'rig' stream")
    with rta_writers.sessions(sessions, channels=engine) as group:
        frame.write.format("rta").mode("append").options(**group.options).save()
    assert read_back(spark, url, "car-0").where("name = 'rpm'").count() == ROWS
    assert [binding["identifier"] for binding in (sessions.get("car-0").json or {})["configBindings"]] == [
        engine.identifier
    ]


def test_a_program_without_spark_writes_by_names(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient
) -> None:
    """BurstWriter and write_partition take the types and ids of the configuration."""
    table = pa.table({"time": [1, 2], "torque": pa.array([1, 2], pa.int16())})
    channels = rta_writers.Channels.of(table)
    with sessions.session("run-1", stream="rig", channels=channels) as session:
        with rta_writers.BurstWriter(session.options) as writer:
            writer.write(table)
        rta_writers.write_partition([{"time": 3, "torque": 3}], job="one", **session.options)
        with rta_writers.BurstWriter(session.options) as writer:
            writer.samples(["torque"], [4], [4])
    read = read_back(spark, url)
    assert read.schema["value"].dataType.simpleString() == "smallint"
    assert sorted((row.name, row.time, row.value) for row in read.collect()) == [("torque", n, n) for n in range(1, 5)]
    with pytest.raises(errors.BadChannels, match="in long form"):
        rta_writers.Channels.of(spark.sql("select 1 channel, 1L time, 1D value"))
    with pytest.raises(errors.BadChannels, match="a timestamp is no sample"):
        rta_writers.Channels.of(spark.sql("select 1L time, timestamp'2026-01-01' lap"))


def test_a_session_is_read_by_its_external_id(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient, engine: rta_writers.Channels
) -> None:
    """In every form, in a batch and in a streaming query, with the names of its channels."""
    with sessions.session("run-1", stream="rig", external_id="order-7", channels=engine) as session:
        save(wide_frame(spark), session)
        save(spark.sql("select 7 event_definition_id, 1L time"), session)
    by_id = {"redisUrl": url, "externalId": "order-7"}
    reads = {
        form: spark.read.format("rta").options(form=form, **by_id).load() for form in ("samples", "wide", "events")
    }
    assert sorted((row.name, row.time, row.value) for row in reads["samples"].collect()) == expected()
    assert reads["wide"].orderBy("time").collect() == wide_frame(spark).select("time", *NAMES).orderBy("time").collect()
    assert [row.session for row in reads["events"].collect()] == ["run-1"]
    stream = spark.readStream.format("rta").options(**by_id).load()
    stream.writeStream.format("memory").queryName("by_id").trigger(availableNow=True).start().awaitTermination()
    assert sorted((row.name, row.time, row.value) for row in spark.table("by_id").collect()) == expected()
    with pytest.raises(PySparkException, match="There is no session with the external id 'run-1'"):
        spark.read.format("rta").options(redisUrl=url, externalId="run-1").load()


def test_decimals_of_spark_arrive_with_all_digits(
    spark: SparkSession, url: str, sessions: rta_writers.SessionClient
) -> None:
    """A column of decimals in a channel of 64 bits without a sign, as Spark has none; a fraction fails the task."""
    channels = rta_writers.Channels.of(pa.schema({"time": pa.int64(), "odometer": pa.uint64()}))
    frame = spark.sql(
        "select * from values (1L, 18446744073709551615BD), (2L, 9007199254740993BD), (3L, null) rows(time, odometer)"
    )
    with sessions.session("run-1", stream="rig", channels=channels) as session:
        save(frame, session)
        with pytest.raises(
            PySparkException, match=r"a decimal with a fraction, about 0\.5, can't be a sample of type uint64"
        ):
            save(spark.sql("select 4L time, 0.5BD odometer"), session)
    read = read_back(spark, url)
    assert sorted((row.time, int(row.value)) for row in read.collect()) == [(1, 2**64 - 1), (2, 2**53 + 1)]
    with sessions.session("run-2", stream="rig", channels=channels) as session:
        save(read.selectExpr("name channel", "time", "value"), session)
    assert sorted(int(row.value) for row in read_back(spark, url, "run-2").collect()) == [2**53 + 1, 2**64 - 1]
