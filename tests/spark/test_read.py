"""Reading back on a real Spark: the rows that were written, in batch and as a stream, and what if some are gone."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rta_wire import errors, limits
from rta_wire.codec import encode
from rta_wire.cold import batch as cold_batch
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.options import read as options_read
from rta_writers.options.target import Target
from rta_writers.read import batches
from rta_writers.read import lookup as read_lookup
from rta_writers.read import plan as read_plan
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader
from tests.spark import frames
from tests.support import cold_streams, samples


@pytest.fixture
def target(url: str, client: redis.Redis) -> Target:
    """A session without a supervisor: its gate, its hash and its entry in the index are set."""
    target = Target(url, "run-1", "rig", 7)
    client.set(target.keys.gate("rig", 7), "open", ex=600)
    fields: Any = {"streamName": "rig", "streamSessionId": "7", "streamPosition": "0-0"}
    client.hset("sessions:run-1", mapping=fields)
    client.expire("sessions:run-1", 600)
    client.zadd(target.keys.session_index(), {"run-1": 1})
    return target


def save(frame: DataFrame, target: Target, **options: str) -> None:
    frame.write.format("rta").mode("append").options(**target.options(), **options).save()


def load(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("rta").options(redisUrl=url, **options).load()


def test_rows_come_back_bit_by_bit(spark: SparkSession, client: redis.Redis, target: Target) -> None:
    """By session and by stream, in one partition and in several, without other sessions' rows."""
    save(frames.long(spark, 20_000), target)
    other = Target(target.redis_url, "run-2", "rig", 8)
    client.set(other.keys.gate("rig", 8), "open", ex=600)
    save(frames.long(spark, 10), other)
    client.config_resetstat()
    for partitions in (1, 5):
        session_rows = load(spark, target.redis_url, session="run-1", partitions=partitions)
        assert frames.collected(session_rows) == frames.rows(20_000)
    stream_rows = load(spark, target.redis_url, stream="rig")
    assert stream_rows.count() == 20_010
    assert {
        (row.session, row.stream_session_id)
        for row in stream_rows.distinct().select("session", "stream_session_id").collect()
    } == {
        ("run-1", 7),
        (None, 8),
    }
    assert "cmdstat_scan" not in client.info("commandstats")


def test_cold_rows_come_back_bit_by_bit(
    spark: SparkSession, client: redis.Redis, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batch and as a stream, from a cursor that stood in the middle of a batch: compacted is not lost."""
    monkeypatch.setattr(limits, "COLD_BATCH_MAX_ENTRIES", 5)
    save(frames.long(spark, 10_000).repartition(8), target)
    info: Any = client.xinfo_stream("stream:rig")
    assert info["length"] > 6
    live_rows = frames.collected(load(spark, target.redis_url, session="run-1"))
    run_stream(spark, target, tmp_path)
    save(frames.long(spark, 1000), target)
    anyio.run(cold_streams.compact_now, target.redis_url)
    assert client.xlen("stream:rig") == 0
    run_stream(spark, target, tmp_path)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 11_000
    for partitions in (1, 4):
        cold_rows = frames.collected(load(spark, target.redis_url, session="run-1", partitions=partitions))
        assert sorted(cold_rows) == sorted([*live_rows, *frames.rows(1000)])
    save(frames.long(spark, 10), target)
    assert load(spark, target.redis_url, stream="rig").count() == 11_010
    middle: Any = client.xrange("cold:rig", count=1)
    after = cold_batch.unpack_entries(middle[0][1][b"b"])[1].id
    later_rows = load(spark, target.redis_url, stream="rig", startingOffset=after)
    assert 0 < later_rows.count() < 11_010


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_filters_are_taken_over(spark: SparkSession, target: Target) -> None:
    """On time, channel and session: the plan has no filter left, and the rows are right."""
    save(frames.long(spark, 1000), target)
    start_ns = samples.START_NS
    filtered = load(spark, target.redis_url, stream="rig", pushFilters=True).where(
        f"channel in (2, 3) and time >= {start_ns + 10_000} and time < {start_ns + 500_000} and session = 'run-1'"
    )
    expected = [
        row for row in frames.rows(1000) if row[0] in (2, 3) and start_ns + 10_000 <= row[1] < start_ns + 500_000
    ]
    assert frames.collected(filtered) == expected
    assert "Filter (" not in plan_of(filtered).replace("isnotnull(session", ""), plan_of(filtered)
    assert load(spark, target.redis_url, stream="rig", pushFilters=True).where("session = 'nobody'").count() == 0
    filtered_by_spark = load(spark, target.redis_url, stream="rig", pushFilters=True).where(
        "value > 100 and channel = 1"
    )
    assert filtered_by_spark.count() == len([row for row in frames.rows(1000) if row[0] == 1 and row[2] > 100])


def test_one_frame_serves_many_queries(spark: SparkSession, target: Target) -> None:
    """The filters of one query are not those of the next, nor of another branch of the same one."""
    save(frames.long(spark, 100), target)
    frame = load(spark, target.redis_url, stream="rig")
    ones = len([row for row in frames.rows(100) if row[0] == 1])
    assert frame.where("channel = 1").count() == ones
    assert frame.count() == 100
    assert frame.where("channel = 1 or value < -1").count() == ones
    assert frame.where("channel = 1").union(frame.where("channel <> 1")).count() == 100


def test_types_and_events_come_back(spark: SparkSession, target: Target) -> None:
    """Whole numbers of 64 bits stay whole, and events have columns of their own."""
    big = spark.sql(f"select 1 channel, 5L time, {2**53 + 1}L value")
    save(big, target, sampleType="int64")
    assert frames.collected(load(spark, target.redis_url, session="run-1", sampleType="int64")) == [(1, 5, 2**53 + 1)]
    events = spark.sql("select 3 event_definition_id, 9L time, 'up' status_text, array(1.5D) raw_data")
    save(events, target)
    (row,) = load(spark, target.redis_url, session="run-1", sampleType="int64", form="events").collect()
    assert (row.event_definition_id, row.time, row.status_text, row.raw_data) == (3, 9, "up", [1.5])


def test_unsigned_samples_come_back(spark: SparkSession, target: Target) -> None:
    """Spark has no unsigned types: the next larger one holds them."""
    top = spark.sql(f"select 1 channel, 5L time, cast({2**32 - 1}L as bigint) value")
    save(top, target, sampleType="uint32")
    assert frames.collected(load(spark, target.redis_url, session="run-1", sampleType="uint32")) == [(1, 5, 2**32 - 1)]


def test_an_unknown_session_is_named(spark: SparkSession, url: str) -> None:
    """The sentence says that it may have expired."""
    with pytest.raises(PySparkException, match=r"no session 'gone' in Redis, nor in an archive .*: it was never"):
        load(spark, url, session="gone").collect()


def test_trimmed_entries_are_an_error_or_are_passed_over(
    spark: SparkSession, client: redis.Redis, target: Target
) -> None:
    """Entries that are gone are an error unless `failOnDataLoss` is false."""
    for _ in range(2):
        save(frames.long(spark, 1000), target)
    client.xtrim("stream:rig", maxlen=2, approximate=False)
    with pytest.raises(PySparkException, match=r"Entries of stream 'rig' after 0-0 are gone.*'failOnDataLoss'"):
        load(spark, target.redis_url, session="run-1").collect()
    remaining = load(spark, target.redis_url, session="run-1", failOnDataLoss="false")
    assert 0 < remaining.count() < 2000


def run_stream(spark: SparkSession, target: Target, folder: Path, **options: str) -> None:
    """Read all entries that are in the stream now with a streaming query, into files."""
    query = (
        spark.readStream.format("rta")
        .options(redisUrl=target.redis_url, **(options if "stream" in options else {"session": "run-1", **options}))
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_of_entries_is_read_once(spark: SparkSession, target: Target, tmp_path: Path) -> None:
    """Each run goes on where the one before ended, by the ids of entries."""
    for rows in (1000, 2000):
        save(frames.long(spark, rows), target)
        run_stream(spark, target, tmp_path)
    read = spark.read.parquet(str(tmp_path / "out"))
    assert frames.collected(read) == sorted(frames.rows(1000) + frames.rows(2000))


@pytest.mark.parametrize("option", ["session", "stream"])
def test_a_backlog_is_read_in_parts(
    spark: SparkSession, client: redis.Redis, target: Target, tmp_path: Path, option: str
) -> None:
    """At most so many entries in a trigger, however many wait; then only what came since."""
    save(frames.long(spark, 5000), target, burstBytes="4096")
    length: Any = client.xlen("stream:rig")
    source = {"session": "run-1"} if option == "session" else {"stream": "rig"}
    run_stream(spark, target, tmp_path, maxEntriesPerTrigger="3", **source)
    epochs = [path for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    assert len(epochs) == -(-length // 3) > 2
    save(frames.long(spark, 100), target)
    run_stream(spark, target, tmp_path, maxEntriesPerTrigger="3", **source)
    read = frames.collected(spark.read.parquet(str(tmp_path / "out")))
    assert read == sorted(frames.rows(5000) + frames.rows(100))


def test_a_trimmed_offset_fails_the_query_or_is_a_gap(
    spark: SparkSession, client: redis.Redis, target: Target, tmp_path: Path
) -> None:
    """The query knows how many entries there were at its offset: it names the exact number that is missing."""
    save(frames.long(spark, 1000), target)
    run_stream(spark, target, tmp_path)
    for _ in range(2):
        save(frames.long(spark, 500), target)
    client.xtrim("stream:rig", maxlen=1, approximate=False)
    added: Any = client.xinfo_stream("stream:rig")
    lost = added["entries-added"] - added["length"] - 2
    with pytest.raises(PySparkException, match=f"are gone, {lost} of them"):
        run_stream(spark, target, tmp_path)
    run_stream(spark, target, tmp_path, failOnDataLoss="false")
    assert 1000 < spark.read.parquet(str(tmp_path / "out")).count() < 2000


def test_a_session_that_starts_where_the_trimmer_stopped_has_lost_nothing(url: str, client: redis.Redis) -> None:
    """Entries before the first one of the session are gone, which were not its own: no error."""
    options = options_read.ReadOptions(redis_url=url)
    position = read_lookup.ReadPosition("rig", "5-0", 7)
    counters = StreamCounters("6-0", "9-0", added=9, length=4)
    assert read_plan.count_missing(client, options, position, counters) is None
    client.xadd("stream:rig", {"id": "7", "data": encode.session_json(b"{}")}, id="6-0")
    assert read_plan.count_missing(client, options, position, counters) == 0
    assert read_plan.count_missing(client, options, position, counters, added=3) == 2
    assert read_plan.count_missing(client, options, read_lookup.ReadPosition("rig", "12-0", 7), counters) is None


def add_entries(client: redis.Redis, count: int, *, stream: str = "rig", first: int = 0) -> None:
    """Add entries of one row each, a millisecond apart."""
    for number, burst in enumerate(samples.bursts(count, first=first), first + 1):
        client.xadd(f"stream:{stream}", {"id": "7", "data": burst.data}, id=f"{number}-0")


def begin_day(client: redis.Redis, digits: str) -> str:
    """The stream of another day of the source `rig`, which is in the index from now on."""
    stream = f"rig.{digits}"
    client.zadd("rtas:days:rig", {stream: int(digits)})
    client.expire("rtas:days:rig", 600)
    return stream


def test_a_source_is_read_across_midnight(
    spark: SparkSession, client: redis.Redis, target: Target, tmp_path: Path
) -> None:
    """In batch and with one checkpoint: one day at first, then two that grow at once."""
    monday, tuesday = begin_day(client, "20260105"), begin_day(client, "20260106")
    add_entries(client, 5, stream=monday)
    run_stream(spark, target, tmp_path, stream="rig")
    add_entries(client, 3, stream=tuesday, first=5)
    add_entries(client, 2, stream=monday, first=8)
    run_stream(spark, target, tmp_path, stream="rig")
    expected = [(1, samples.START_NS + n, float(n)) for n in range(10)]
    assert frames.collected(spark.read.parquet(str(tmp_path / "out"))) == expected
    assert frames.collected(load(spark, target.redis_url, stream="rig")) == expected
    with pytest.raises(PySparkException, match="no stream and no source 'rih'"):
        load(spark, target.redis_url, stream="rih").collect()


def read_step(reader: stream_reader.StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """The offset after a trigger, and the values that it read."""
    end = reader.latestOffset(start)
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return end, [value for batch in batches for value in batch.column("value").to_pylist()]


def test_one_offset_for_all_days(client: redis.Redis, url: str) -> None:
    """It goes on from the checkpoint of the undivided stream, day by day, and a day that is removed leaves it. It is a
    gap if the last day that was read is gone: later ones may have come and gone as well."""
    add_entries(client, 3)
    options = options_read.ReadOptions(redis_url=url, stream="rig", max_entries_per_trigger=4)
    reader = stream_reader.StreamReader(options, spark_reader.spark_schema(options))
    offset: dict[str, Any] = {"id": "2-0", "added": 2}
    monday, tuesday = begin_day(client, "20260105"), begin_day(client, "20260106")
    add_entries(client, 5, stream=monday, first=3)
    add_entries(client, 2, stream=tuesday, first=8)
    offset, values = read_step(reader, offset)
    assert (offset["id"], offset["days"], values) == ("3-0", {"20260105": {"id": "6-0", "added": 3}}, [2, 3, 4, 5])
    offset, values = read_step(reader, offset)
    assert values == [6, 7, 8, 9]
    add_entries(client, 1, stream=monday, first=10)
    offset, values = read_step(reader, offset)
    assert values == [10], "an entry after midnight"
    client.zrem("rtas:days:rig", monday)
    client.unlink(f"stream:{monday}")
    before = offset
    offset, values = read_step(reader, offset)
    assert (list(offset["days"]), values) == (["20260106"], [])
    client.unlink(f"stream:{tuesday}")
    sunday = begin_day(client, "20260111")
    add_entries(client, 2, stream=sunday, first=11)
    assert read_step(reader, before)[1] == [11, 12], "the last day is in the index"
    client.zrem("rtas:days:rig", tuesday)
    with pytest.raises(errors.StreamGap, match=f"{tuesday!r} was removed .*failOnDataLoss"):
        read_step(reader, before)
    reader._options = msgspec.structs.replace(options, fail_on_data_loss=False)
    offset, values = read_step(reader, before)
    assert (list(offset["days"]), values) == (["20260111"], [11, 12])


def test_entries_that_were_trimmed_in_a_day_are_counted(client: redis.Redis, url: str) -> None:
    """After the offset that was read they are a gap of that day, before a query began they are not missed."""
    monday = begin_day(client, "20260105")
    add_entries(client, 5, stream=monday)
    client.xtrim(f"stream:{monday}", maxlen=3, approximate=False)
    options = options_read.ReadOptions(redis_url=url, stream="rig")
    reader = stream_reader.StreamReader(options, spark_reader.spark_schema(options))
    offset, values = read_step(reader, reader.initialOffset())
    assert values == [2, 3, 4]
    add_entries(client, 4, stream=monday, first=5)
    client.xtrim(f"stream:{monday}", maxlen=1, approximate=False)
    with pytest.raises(errors.StreamGap, match=f"{monday!r} after 5-0 are gone, 3 of them"):
        read_step(reader, offset)


@pytest.mark.parametrize("selection", [{"stream": "rig"}, {"session": "run-1"}])
def test_a_query_that_waits_for_its_stream(url: str, client: redis.Redis, selection: dict[str, str]) -> None:
    """It begins before the stream and the session are there, and reads the session from its position on."""
    options = options_read.ReadOptions.parse({"redisUrl": url, **selection})
    schema = spark_reader.spark_schema(options)
    with pytest.raises((errors.UnknownStream, errors.UnknownSession)):
        stream_reader.StreamReader(options, schema).initialOffset()
    reader = stream_reader.StreamReader(msgspec.structs.replace(options, wait_for_stream=True), schema)
    offset, values = read_step(reader, reader.initialOffset())
    assert values == []
    add_entries(client, 4)
    fields: Any = {"streamName": "rig", "streamSessionId": "7", "streamPosition": "1-0"}
    client.hset("sessions:run-1", mapping=fields)
    client.expire("sessions:run-1", 60)
    assert read_step(reader, offset)[1] == ([1, 2, 3] if "session" in selection else [0, 1, 2, 3])


def test_a_trimmer_that_overtakes_a_task_is_noticed(client: redis.Redis, target: Target) -> None:
    """All was there when the query was planned, and half of it when its task read: an error, or what is left."""
    add_entries(client, 4)
    options = options_read.ReadOptions(redis_url=target.redis_url, session="run-1")
    [entry_range] = read_plan.plan_batch(client, options)
    client.xtrim("stream:rig", maxlen=2, approximate=False)
    with pytest.raises(errors.StreamGap):
        list(batches.read_batches(options, entry_range, batches.RowFilter()))
    tolerant = msgspec.structs.replace(options, fail_on_data_loss=False)
    assert sum(batch.num_rows for batch in batches.read_batches(tolerant, entry_range, batches.RowFilter())) == 2


@pytest.mark.parametrize(
    ("start", "offset", "rows"),
    [
        ("earliest", {"id": "0-0"}, 4),
        ("1-0", {"id": "1-0"}, 3),
        ("latest", {"id": "4-0", "added": 4}, 0),
    ],
)
def test_reading_starts_where_it_was_told_to(
    client: redis.Redis, target: Target, start: str, offset: dict[str, Any], rows: int
) -> None:
    """Option `startingOffset` works in a batch and in a streaming query."""
    add_entries(client, 4)
    options = options_read.ReadOptions(redis_url=target.redis_url, session="run-1", starting_offset=start)
    schema = spark_reader.spark_schema(options)
    assert stream_reader.StreamReader(options, schema).initialOffset() == offset
    reader = spark_reader.BatchReader(options, schema)
    assert sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition)) == rows


def test_a_trigger_ends_after_so_many_entries(client: redis.Redis, target: Target) -> None:
    """A trigger reads exactly so many entries; those added after a query was told to end are left to the next."""
    add_entries(client, 7)
    options = options_read.ReadOptions(redis_url=target.redis_url, stream="rig", max_entries_per_trigger=3)
    reader = stream_reader.StreamReader(options, spark_reader.spark_schema(options))
    reader.prepareForTriggerAvailableNow()
    client.xadd("stream:rig", {"id": "7", "data": b""}, id="8-0")
    offsets = [reader.initialOffset()]
    while len(offsets) < 5:
        offsets.append(reader.latestOffset(offsets[-1]))
    last = {"id": "7-0", "added": 7}
    assert offsets == [{"id": "0-0"}, {"id": "3-0", "added": 3}, {"id": "6-0", "added": 6}, last, last]
    assert reader.latestOffset({"id": "2-0"}) == {"id": "5-0"}, "how many there were by then is not known"
    assert reader.latestOffset({"id": "5-0"}) == last
