"""A Spark job on executors that are other processes and have nothing of ours installed. Run by test_cluster.py.

Everything here that runs on an executor is pickled by value: this module can't be imported there.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import rta_writers

ROWS = 200_000
SCHEMA = "channel int, time bigint, value double"
START_NS = 1_700_000_000_000_000_000

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def main() -> None:
    url, work = sys.argv[1], Path(sys.argv[2])
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark = (
        SparkSession.Builder()
        .master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "100ms")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.local.dir", str(work / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rta_writers.ship(spark)
    metrics = rta_writers.register(spark)
    client = rta_writers.SessionClient(url)
    found = {}
    for name, fault, delivery in (
        ("plain", None, "exactly-once"),
        ("twins", slow_first, "exactly-once"),
        ("twins-doubled", slow_first, "at-least-once"),
        ("killed", kill_executor, "exactly-once"),
        ("killed-staged", kill_executor, "staged"),
        ("killed-doubled", kill_executor, "at-least-once"),
    ):
        marker = work / name
        marker.mkdir()
        with client.session(name, stream=name) as session:
            frame = samples(spark)
            if fault is not None:
                frame = frame.mapInArrow(fault(str(marker)), SCHEMA)
            options = {**session.options, "delivery": delivery}
            frame.write.format("rta").mode("append").options(**options).save()
        back = spark.read.format("rta").options(redisUrl=url, session=name).load()
        found[name] = {
            "injected": len(list(marker.iterdir())),
            "rows": back.count(),
            "distinct": back.distinct().count(),
            "sum": back.selectExpr("sum(value)").collect()[0][0],
        }
    found["metrics"] = {"duplicates": metrics.effort().duplicate_rows, "samples": metrics.effort().samples}
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


def samples(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "cast(id % 7 as int) channel", f"{START_NS} + id * 1000 time", "id / 4D value"
    )


def slow_first(marker: str) -> Map:
    """One task writes most of its rows and then waits until its twin is done."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        slow = context.partitionId() == 1 and context.attemptNumber() == 0
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.num_rows
            if slow and seen > 70_000:
                Path(marker, "slow").touch()
                deadline_s = time.monotonic() + 60
                while not Path(marker, "twin").exists() and time.monotonic() < deadline_s:
                    time.sleep(0.05)
                slow = False
        if context.partitionId() == 1 and context.attemptNumber() > 0:
            Path(marker, "twin").touch()

    return wait


def kill_executor(marker: str) -> Map:
    """The first attempt kills the process that runs it, after it wrote something."""

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.num_rows
            if context.partitionId() == 1 and seen > 70_000 and not Path(marker, "killed").exists():
                Path(marker, "killed").touch()
                daemon = os.getppid()
                fields = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(fields[1]), signal.SIGKILL)

    return kill


if __name__ == "__main__":
    assert os.environ["PYSPARK_PYTHON"] != sys.executable, "executors must not see what the driver sees"
    main()
