"""The Spark job of the demo, as an ingest engineer would write it. Runs as a process of its own.

Ticks of three cars arrive as files. Spark computes 50 channels from each tick and streams them, one session per car. A
spreadsheet says what the channels are: names, units and ranges.
Progress goes to standard output as JSON lines, which `demo.play` reads.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rta_writers
from rta_supervisor.demo import cars

FILES_PER_CAR: Final = 4
POLL_S: Final = 0.1


def main() -> None:
    url, run, work = sys.argv[1:]
    names = cars.RunNames(run)
    spark = start_spark(Path(work))
    rta_writers.register(spark)
    emit("started", spark=spark.version)
    sessions = rta_writers.SessionClient(url, key_prefix=names.key_prefix)
    channels = rta_writers.Channels.load(cars.CHANNELS_FILE)
    began_s = time.monotonic()
    queries = []
    for car, identity in names.sessions.items():
        session = sessions.session(
            identity,
            stream=names.stream,
            identifier=f"Car {car}",
            type="demo",
            details={"Car": car, "Rate": cars.RATE_HZ},
            channels=channels,
        )
        frame = telemetry(spark, write_ticks(Path(work), car), car)
        query = (
            frame.writeStream.format("rta")
            .option("checkpointLocation", f"{work}/checkpoint-{car}")
            .options(**session.options)
            .trigger(availableNow=True)
            .start()
        )
        queries.append((session, query))
    for samples in progress([query for _, query in queries]):
        emit("progress", samples=samples)
    for session, query in queries:
        query.awaitTermination()
        session.close()
    emit("written", seconds=time.monotonic() - began_s)
    spark.stop()


def start_spark(work: Path) -> SparkSession:
    builder = SparkSession.Builder().master("local[2]").appName("rta-supervisor demo")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.local.dir": str(work / "spark"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_ticks(work: Path, car: int) -> Path:
    """Writes the ticks of a car as Parquet files, as a recorder on the car would, and gives their folder."""
    folder = work / f"car-{car}"
    folder.mkdir()
    for number, ticks in enumerate(np.array_split(np.arange(cars.TICKS, dtype=np.int64), FILES_PER_CAR)):
        pyarrow.parquet.write_table(pa.table({"tick": ticks}), folder / f"{number:03}.parquet")
    return folder


def telemetry(spark: SparkSession, folder: Path, car: int) -> DataFrame:
    """A streaming frame of rows (channel, time, value), computed from files of ticks."""
    ticks = spark.readStream.schema("tick bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    channels = ticks.selectExpr("tick", f"{car}L car", f"explode(sequence(1L, {cars.CHANNELS}L)) channel")
    return channels.selectExpr(
        "cast(channel as int) channel",
        f"{cars.START_NS} + tick * {cars.TICK_NS} time",
        f"{cars.WAVE_SQL} value",
    )


def progress(queries: list[StreamingQuery]) -> Iterator[int]:
    """The number of samples of all queries so far, whenever it has grown, until the last query ends."""
    samples = -1
    while True:
        is_active = any(query.isActive for query in queries)
        ticks = sum(batch["numInputRows"] for query in queries for batch in query.recentProgress)
        if ticks * cars.CHANNELS > samples:
            samples = ticks * cars.CHANNELS
            yield samples
        if not is_active:
            return
        time.sleep(POLL_S)


def emit(event: str, **fields: object) -> None:
    """Prints an event as one JSON line, for the process that started this one."""
    print(msgspec.json.encode({"event": event, **fields}).decode(), flush=True)


if __name__ == "__main__":
    main()
