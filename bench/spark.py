"""The Spark data source on two cores that it shares with Redis, against sinks and sources that do nothing."""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

import rta_writers
from bench import parts
from bench.measure import Case, constant
from rta_writers.spark import driver as rta_spark

CHANNELS = 100
WIDE_SAMPLES = 60_000_000  # Spark takes 4 s to plan and send a query of 5,000 columns, whatever the sink
VERY_WIDE_CHANNELS = 5_000
START_NS = 1_700_000_000_000_000_000
ROWS = 20_000_000
FEW_ROWS = 6_000_000
NAIVE_ROWS = 500_000
QUICK_ROWS = 10_000
BATCH_ROWS = 262_144
TRIGGERS = 12
MORE_MS_MAX = 50


class CountingWriter(DataSourceArrowWriter):
    """Takes every batch and lets go of it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Any) -> None:
        """Nothing to do."""


class ReadyReader(DataSourceReader):
    """Gives batches that lie ready."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows // 2)] * 2

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        names = ("session", "stream_session_id", "channel", "time", "value")
        count = min(partition.value, BATCH_ROWS)
        numbers = pa.array(range(count), pa.int64())
        ready = pa.record_batch(
            [
                pa.repeat(pa.scalar("bench", pa.string()), count),
                numbers,
                numbers,
                numbers,
                pa.array(range(count), pa.float64()),
            ],
            names=names,
        )
        for first in range(0, partition.value, count):
            yield ready.slice(0, min(count, partition.value - first))


class Idle(DataSource):
    """The least that a source or a sink in Python can do."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> str:
        return "session string, stream_session_id bigint, channel bigint, time bigint, value double"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002 - Spark's names
        return CountingWriter()

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's name
        return ReadyReader(int(self.options["rows"]))


@functools.cache
def ready() -> None:
    """The sources are known and Spark is tuned."""
    rta_writers.register(parts.spark())
    parts.spark().dataSource.register(Idle)


def long_frame(rows: int) -> DataFrame:
    """Cheap to make, so that the sink is what is measured."""
    ready()
    return (
        parts.spark()
        .range(0, rows, 1, 2)
        .selectExpr(
            f"cast(id % {CHANNELS} as int) channel",
            f"{START_NS} + id div {CHANNELS} * 10000000 time",
            "id * 0.25D value",
        )
    )


def wide_frame(samples: int, channels: int) -> DataFrame:
    """The same samples with a column for each channel."""
    ready()
    values = [f"(id * {channels} + {channel}) * 0.25D c{channel}" for channel in range(channels)]
    rows = parts.spark().range(0, samples // channels, 1, 2)
    return rows.selectExpr(f"{START_NS} + id * 10000000 time", *values)


def per_second(amount: int, work: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    work()
    return amount / (time.perf_counter() - started_s)


def save(frame: DataFrame, name: str, options: dict[str, str] | None = None) -> None:
    frame.write.format(name).mode("append").options(**(options or {})).save()


def to_redis(rows: int) -> float:
    frame, options = long_frame(rows), parts.fresh_session().options()
    return per_second(rows, lambda: save(frame, "rta", options))


def to_nowhere(rows: int) -> float:
    frame = long_frame(rows)
    return per_second(rows, lambda: save(frame, "idle"))


def wide_to_redis(samples: int, channels: int = CHANNELS) -> float:
    ids = ",".join(f"c{channel}={channel}" for channel in range(channels))
    return _wide_to("rta", samples, channels, {**parts.fresh_session().options(), "channels": ids})


def wide_to_nowhere(samples: int, channels: int) -> float:
    return _wide_to("idle", samples, channels)


def _wide_to(name: str, samples: int, channels: int, options: dict[str, str] | None = None) -> float:
    frame = wide_frame(samples, channels)
    rta_writers.tune(parts.spark(), columns=channels + 1)
    try:
        return per_second(samples, lambda: save(frame, name, options))
    finally:
        rta_writers.tune(parts.spark())


def naively(rows: int) -> float:
    """What people write by hand: a burst per 1,000 rows from Python objects, a call for each."""
    target = parts.fresh_session()
    url, stream = target.redis_url, f"stream:{target.stream}"

    def write(found: Iterator[Row]) -> None:
        import lz4.block  # noqa: PLC0415 - runs in a worker
        import redis  # noqa: PLC0415

        from rta_wire.pb import stream_pb2  # noqa: PLC0415

        client = redis.Redis.from_url(url)
        waiting: dict[int, list[Row]] = {}

        def send() -> None:
            burst = stream_pb2.StreamDataBurst()
            for channel, some in waiting.items():
                data = burst.data.add().timestamped_data
                data.channel_id, data.start_timestamp = channel, some[0].time
                data.timestamp_deltas_scale = 1
                last, values = some[0].time, bytearray()
                for row in some:
                    data.timestamp_deltas.append(row.time - last)
                    last = row.time
                    values += struct.pack("<d", row.value)
                data.buffer = bytes(values)
            client.xadd(stream, {"id": 1, "data": lz4.block.compress(burst.SerializeToString(), store_size=False)})
            waiting.clear()

        import struct  # noqa: PLC0415

        held = 0
        for row in found:
            waiting.setdefault(row.channel, []).append(row)
            held += 1
            if held == 1000:
                send()
                held = 0
        if held:
            send()

    frame = long_frame(rows)
    return per_second(rows, lambda: frame.foreachPartition(write))


def untuned(rows: int) -> float:
    """With the batches that Spark makes by default."""
    ready()
    spark = parts.spark()
    names = (rta_spark.BYTES_PER_BATCH, rta_spark.ROWS_PER_BATCH)
    tuned = {name: spark.conf.get(name) for name in names}
    for name in names:
        spark.conf.unset(name)
    try:
        return to_redis(rows)
    finally:
        for name, value in tuned.items():
            spark.conf.set(name, str(value))


def bench_long_form(quick: bool) -> Iterator[Case]:
    rows = QUICK_ROWS if quick else ROWS
    few = QUICK_ROWS if quick else FEW_ROWS
    naive_rows = 1_000 if quick else NAIVE_ROWS
    wide_samples = QUICK_ROWS if quick else WIDE_SAMPLES
    yield Case(
        "long form to Redis against a sink that counts",
        "rows/s",
        functools.partial(to_redis, rows),
        functools.partial(to_nowhere, rows),
        0.75,
        times=3,
    )
    yield Case(
        "long form, exactly once, against a naive foreachPartition",
        "rows/s",
        functools.partial(to_redis, rows),
        functools.partial(naively, naive_rows),
        20,
    )
    yield Case(
        "tuned against Spark's defaults",
        "rows/s",
        functools.partial(to_redis, few),
        functools.partial(untuned, few),
        2,
    )
    yield Case(
        "wide form, 100 channels, against the long form",
        "samples/s",
        functools.partial(wide_to_redis, rows),
        functools.partial(to_redis, rows),
        2,
    )
    yield Case(
        "wide form, 5,000 channels, against an Arrow sink that only counts",
        "samples/s",
        functools.partial(wide_to_redis, wide_samples, VERY_WIDE_CHANNELS),
        functools.partial(wide_to_nowhere, wide_samples, VERY_WIDE_CHANNELS),
        0.5,
    )


def read_back(rows: int) -> float:
    """What the last write left in the stream, into a sink that does nothing."""
    spark = parts.spark()
    options = {"redisUrl": parts.redis_url(), "stream": parts.STREAM, "partitions": "2"}
    if spark.read.format("rta").options(**options).load().count() != rows:
        to_redis(rows)
    frame = spark.read.format("rta").options(**options).load()
    return per_second(rows, lambda: save(frame, "noop"))


def read_nothing(rows: int) -> float:
    ready()
    frame = parts.spark().read.format("idle").option("rows", rows).load()
    return per_second(rows, lambda: save(frame, "noop"))


def bench_read_back(quick: bool) -> Iterator[Case]:
    rows = QUICK_ROWS if quick else FEW_ROWS
    yield Case(
        "read back against a source of ready batches",
        "rows/s",
        functools.partial(read_back, rows),
        functools.partial(read_nothing, rows),
        0.7,
    )


def trigger_ms(sink: str, options: dict[str, str], triggers: int) -> float:
    """The median time of a trigger that has nothing to write."""
    ready()
    spark = parts.spark()
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    nothing = frame.where("value < 0").selectExpr("1 channel", "value time", "1D value")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = nothing.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint).start()
        while len(query.recentProgress) < triggers and query.isActive:
            time.sleep(0.05)
        query.stop()
        problem = query.exception()
        if problem is not None:
            raise problem
        times = [one["durationMs"]["triggerExecution"] for one in query.recentProgress[2:]]
    return float(statistics.median(times))


def more_ms(triggers: int) -> float:
    ours = trigger_ms("rta", parts.fresh_session().options(), triggers)
    return max(1.0, ours - trigger_ms("noop", {}, triggers))


def bench_trigger(quick: bool) -> Iterator[Case]:
    triggers = 4 if quick else TRIGGERS
    yield Case(
        "a trigger with nothing to write, more than a no-op sink",
        "ms",
        functools.partial(more_ms, triggers),
        constant(MORE_MS_MAX),
        1.0,
        at_most=True,
    )
