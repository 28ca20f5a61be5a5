"""A Spark job on executors that are other processes and have nothing of ours installed. Run by test_cluster.py.

Everything here that runs on an executor is pickled by value: this module can't be imported there.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

import rta_writers

ROWS = 200_000
SCHEMA = "channel int, time bigint, value double"
LONG_RUNS = ("twins-doubled", "killed-staged")
START_NS = 1_700_000_000_000_000_000

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def main() -> None:
    url, work = sys.argv[1], Path(sys.argv[2])
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = (
        SparkSession.Builder()
        .master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.local.dir", str(work / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rta_writers.ship(spark)
    metrics = rta_writers.register(spark)
    client = rta_writers.SessionClient(url)
    found: dict[str, dict[str, int]] = {}
    for name, write, delivery in (
        ("plain", write_once, "exactly-once"),
        ("twins", write_twice, "exactly-once"),
        ("twins-doubled", write_twice, "at-least-once"),
        ("killed", write_killed, "exactly-once"),
        ("killed-staged", write_killed, "staged"),
        ("killed-doubled", write_killed, "at-least-once"),
    ):
        if name in LONG_RUNS and not os.environ.get("RTA_SOAK"):
            continue
        marker = work / name
        marker.mkdir()
        with client.session(name, stream=name) as session:
            write(spark, str(marker), {**session.options, "delivery": delivery})
        found[name] = {"injected": len(list(marker.iterdir())), "id": session.target.stream_session_id}
    back = spark.read.format("rta").options(redisUrl=url, session="plain").load()
    found["read"] = {"rows": back.count()}
    found["metrics"] = {"duplicates": metrics.effort().duplicate_rows, "samples": metrics.effort().samples}
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


def samples(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "cast(id % 7 as int) channel", f"{START_NS} + id * 1000 time", "id / 4D value"
    )


def save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("rta").mode("append").options(**options).save()


def write_once(spark: SparkSession, marker: str, options: dict[str, str]) -> None:
    """No fault at all."""
    del marker
    save(samples(spark), options)


def write_twice(spark: SparkSession, marker: str, options: dict[str, str]) -> None:
    """Twins: the same tasks at the same time. Spark starts none on the host of the other, and here there is but one."""
    options = {**options, "job": "twins"}
    slow = samples(spark).mapInArrow(wait_for_twin(marker), SCHEMA)
    with futures.ThreadPoolExecutor(1) as pool:
        twin = pool.submit(write_as_twin, spark, marker, options)
        save(slow, options)
        twin.result()


def write_as_twin(spark: SparkSession, marker: str, options: dict[str, str]) -> None:
    """The same units by the other way in, as soon as the first is frozen."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import rta_writers  # noqa: PLC0415 - on an executor

        outcome = rta_writers.write_partition(batches, **options)
        yield pa.record_batch({"rows": [outcome.effort.rows]})

    while not Path(marker, "waiting").exists():
        time.sleep(0.05)
    counts = samples(spark).mapInArrow(write, "rows bigint").collect()
    assert sum(row.rows for row in counts) == ROWS
    Path(marker, "twin").touch()


def write_killed(spark: SparkSession, marker: str, options: dict[str, str]) -> None:
    """An executor dies in the middle of a task."""
    save(samples(spark).coalesce(1).mapInArrow(kill_executor(marker, options), SCHEMA), options)


def wait_for_twin(marker: str) -> Map:
    """One task writes most of its rows and then freezes until its twin has written all."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.num_rows
            if context.partitionId() == 0 and seen > 70_000:
                Path(marker, "waiting").touch()
                while not Path(marker, "twin").exists():
                    time.sleep(0.05)

    return wait


def kill_executor(marker: str, options: dict[str, str]) -> Map:
    """The first attempt kills the process that runs it, when some of its rows have arrived."""
    url, stream = options["redisUrl"], options["stream"]

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from rta_writers import connection  # noqa: PLC0415 - on an executor, where it was shipped

        client = connection.connect(url)
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.num_rows
            if seen > ROWS // 2 and not Path(marker, "killed").exists():
                while client.xlen(f"stream:{stream}") < 2 and not client.keys(f"rtas:sg:*{stream}*"):
                    time.sleep(0.02)
                Path(marker, "killed").touch()
                fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(fields[1]), signal.SIGKILL)

    return kill


if __name__ == "__main__":
    assert os.environ["PYSPARK_PYTHON"] != sys.executable, "executors must not see what the driver sees"
    main()
