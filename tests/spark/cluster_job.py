"""A Spark job on executors that are other processes and have nothing of ours installed. Run by test_cluster.py.

Everything here that runs on an executor is pickled by value: this module can't be imported there.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_writers.connection import redis_client
from rta_writers.spark import driver_log

ROWS = 200_000
GROUP_ROWS = 65_536
"""Most of a task, and not all: faults strike between its groups."""

SCHEMA = "channel int, time bigint, value double"
LONG_RUNS = ("killed-staged", "speculated-staged")
START_NS = 1_700_000_000_000_000_000
SIGNAL_S = 120
PAUSE_S = 0.05
BOTH = 2

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def main() -> None:
    """With files from spark-submit: one write on a local-cluster. Without: all faults, on a cluster of two hosts."""
    url, work, shipped_by = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    report: dict[str, dict[str, Any]] = {}
    if shipped_by == "spark-submit":
        spark = session("local-cluster[2,1,1024]", work, {})
        rta_writers.register(spark)
        run(spark, url, report, "submitted", write_once, "exactly-once")
    else:
        sys.path.append(str(Path(__file__).parents[2]))
        from tests.spark import two_hosts  # noqa: PLC0415 - a program is not in the package of its neighbours

        spark = session(two_hosts.start(work), work, two_hosts.SPECULATION)
        rta_writers.register(spark)
        report["refused"] = {"error": error_without_shipping(spark, url)}
        rta_writers.ship(spark)
        rta_writers.ship(spark)
        metrics = rta_writers.register(spark)
        run(spark, url, report, "plain", write_once, "exactly-once")
        back = spark.read.format("rta").options(redisUrl=url, session="plain").load()
        report["read"] = {"rows": back.count()}
        before = metrics.effort().duplicate_rows
        run(spark, url, report, "killed", write_killed, "exactly-once")
        report["metrics"] = {"duplicates": metrics.effort().duplicate_rows - before}
        for delivery, name in (("staged", "-staged"), ("at-least-once", "-doubled")):
            run(spark, url, report, f"killed{name}", write_killed, delivery)
        for delivery, name in (("exactly-once", ""), ("staged", "-staged"), ("at-least-once", "-doubled")):
            run(spark, url, report, f"speculated{name}", write_speculated, delivery)
    sys.stdout.write(json.dumps(report) + "\n")
    spark.stop()


def session(master: str, work: Path, settings: dict[str, str]) -> SparkSession:
    builder = (
        SparkSession.Builder()
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "1024m")
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(GROUP_ROWS))
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.local.dir", str(work / "local"))
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.core.config.Configurator.setLevel(driver_log.REPLACEMENT_LOGGER, log4j.Level.WARN)
    return spark


def error_without_shipping(spark: SparkSession, url: str) -> str:
    """What Spark says where the Python that plans a write has nothing of ours."""
    try:
        save(samples(spark), {"redisUrl": url})
    except PySparkException as error:
        return str(error)
    return ""


Write = Callable[[SparkSession, str, dict[str, str]], None]


def run(
    spark: SparkSession, url: str, report: dict[str, dict[str, Any]], name: str, write: Write, delivery: str
) -> None:
    """Run one write with its fault. The tasks that the fault hits count themselves in Redis."""
    if name in LONG_RUNS and not os.environ.get("RTA_SOAK"):
        return
    with redis_client.connect(url) as client, rta_writers.SessionClient(url).session(name, stream=name) as opened:
        write(spark, name, {**opened.options, "delivery": delivery, "groupRows": str(GROUP_ROWS)})
        report[name] = {"injected": client.llen(f"test:{name}"), "id": opened.target.stream_session_id}


def samples(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "cast(id % 7 as int) channel", f"{START_NS} + id * 1000 time", "id / 4D value"
    )


def save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("rta").mode("append").options(**options).save()


def write_once(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    """Write without a fault."""
    del name
    save(samples(spark), options)


def write_speculated(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    """One task is slow, so that Spark starts its twin on the other host and both write."""
    doubled = options["delivery"] == "at-least-once"
    save(samples(spark).mapInArrow(wait_for_twin(name, options["redisUrl"], doubled=doubled), SCHEMA), options)


def write_killed(spark: SparkSession, name: str, options: dict[str, str]) -> None:
    """An executor dies in the middle of a task."""
    save(samples(spark).coalesce(1).mapInArrow(kill_executor(name, options["redisUrl"]), SCHEMA), options)


def wait_for_twin(name: str, url: str, *, doubled: bool) -> Map:
    """The first attempt of a task freezes when most of its rows are sent, until the second has sent as many.

    Where rows may come twice, until some did: who writes what the twin yields is another process.
    """

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from rta_writers.connection import redis_client  # noqa: PLC0415 - on an executor, where it was shipped

        context = TaskContext.get()
        assert context is not None
        if context.partitionId() != 0:
            yield from batches
            return
        yield from batches
        with redis_client.connect(url) as client:
            client.rpush(f"test:{name}", f"attempt {context.attemptNumber()}")
            client.expire(f"test:{name}", 600)
            if context.attemptNumber() == 0:
                client.connection_pool.connection_kwargs["socket_timeout"] = SIGNAL_S + 5
                client.connection_pool.disconnect()
                client.blpop(f"test:{name}:twin", SIGNAL_S)
                return
            # A twin that is faster would be the only one.
            until_s = time.monotonic() + SIGNAL_S
            while client.llen(f"test:{name}") < BOTH or (doubled and count_arrived(client, name) <= ROWS):
                assert time.monotonic() < until_s, "the first attempt did not come"
                client.execute_command("BLPOP", "test:nothing", PAUSE_S)
            client.rpush(f"test:{name}:twin", "here")
            client.expire(f"test:{name}:twin", 600)

    return wait


def count_arrived(client: Any, name: str) -> int:
    """Samples in the stream of a session."""
    from rta_wire.codec import decode  # noqa: PLC0415 - on an executor, where it was shipped

    entries = client.xrange(f"stream:{name}")
    decoded = decode.columns([fields[b"data"] for _, fields in entries])
    return sum(len(columns.times_ns) for columns in decoded.samples.values())


def kill_executor(name: str, url: str) -> Map:
    """The first attempt kills the process that runs it, when some of its rows have arrived."""

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from rta_writers.connection import redis_client  # noqa: PLC0415 - on an executor, where it was shipped

        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            with redis_client.connect(url) as client:
                if rows <= ROWS // 2 or client.exists(f"test:{name}"):
                    continue
                # The writer is another process: it has the first group, and needs a moment to send it.
                while client.xlen(f"stream:{name}") < 2 and not client.keys(f"rtas:sg:*{name}*"):
                    client.execute_command("BLPOP", "test:nothing", PAUSE_S)
                client.rpush(f"test:{name}", "killed")
                client.expire(f"test:{name}", 600)
            fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            os.kill(int(fields[1]), signal.SIGKILL)

    return kill


if __name__ == "__main__":
    assert os.environ["PYSPARK_PYTHON"] != sys.executable, "executors must not see what the driver sees"
    main()
