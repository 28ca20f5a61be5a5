"""A Spark driver that writes stamped samples and can be killed at any moment. Run as a program by `spark_runs`.

Whatever runs on an executor is pickled by value, so that executors need nothing of the tests.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import SparkContext, TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rta_writers
from rta_writers.spark.driver import ROWS_PER_BATCH
from tests.chaos import die_with_parent, stamps

SCHEMA: Final = "channel int, time bigint, value double"
GROUP_ROWS: Final = 1000
GROUPS: Final = 8
FAILS_AFTER: Final = 5
FAILURES: Final = 2
"""Attempts of each task that fail before one does not."""

LEAN_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def session_of(spark_master: str, work: Path, classes: Path) -> SparkSession:
    spark = (
        SparkSession.Builder()
        .master(spark_master)
        .config("spark.driver.extraJavaOptions", f"{LEAN_JVM} {jvm_classes(classes)}")
        .config("spark.executor.extraJavaOptions", LEAN_JVM)
        .config("spark.python.daemon.module", "tests.chaos.spark_daemon")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.task.maxFailures", "8")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.local.dir", str(work / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rta_writers.register(spark)
    spark.conf.set(ROWS_PER_BATCH, str(GROUP_ROWS))
    return spark


def jvm_classes(archive: Path) -> str:
    """Start with the classes that another JVM loaded, or leave them to the next one. Halves the time of a start."""
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}"
    archive.parent.mkdir(exist_ok=True)
    return f"-XX:ArchiveClassesAtExit={left_by(archive)}"


def left_by(archive: Path) -> Path:
    """Where an archive is written, until it is whole."""
    return archive.with_suffix(".new")


def end_jvm(archive: Path) -> None:
    """Wait for it: it leaves its classes on its way out, if it is one that can."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    with contextlib.suppress(FileNotFoundError):
        left_by(archive).replace(archive)


def stamped(spark: SparkSession, partitions: int, epoch: int, fault: Callable[[int], None]) -> DataFrame:
    """A partition is a unit: groups of samples, with something bad after each of them."""

    def rows(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for seq in range(GROUPS):
            codes = stamps.codes(context.partitionId(), epoch, seq, GROUP_ROWS)
            channels = stamps.channels(codes).astype("int32")
            columns = {"channel": channels, "time": stamps.times_ns(codes), "value": stamps.values(codes)}
            yield pa.record_batch(columns)
            fault(seq)

    return spark.range(0, partitions, 1, partitions).mapInArrow(rows, SCHEMA)


def fails(marker: str) -> Callable[[int], None]:
    """The first attempts of every task fail when some of its rows have been written."""

    def fail(seq: int) -> None:
        context = TaskContext.get()
        assert context is not None
        if seq == FAILS_AFTER and context.attemptNumber() < FAILURES:
            Path(marker, f"failed-{context.partitionId()}-{context.attemptNumber()}").touch()
            raise RuntimeError("injected")

    return fail


def harms_executor(marker: str, kind: str) -> Callable[[int], None]:
    """The first attempt of every task kills or freezes the executor that it runs on."""

    def harm(seq: int) -> None:
        context = TaskContext.get()
        assert context is not None
        if seq == FAILS_AFTER and context.attemptNumber() == 0:
            fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            executor = int(fields[1])
            Path(marker, f"{kind}-{context.partitionId()}").touch()
            if kind == "frozen":
                wake = f"sleep 1; kill -CONT {executor}"
                subprocess.Popen(["/bin/sh", "-c", wake], start_new_session=True)
            os.kill(executor, signal.SIGSTOP if kind == "frozen" else signal.SIGKILL)

    return harm


def save(frame: DataFrame, options: dict[str, str], job: str) -> None:
    frame.write.format("rta").mode("append").options(**options, groupRows=str(GROUP_ROWS), job=job).save()


def note(path: Path, partitions: int, epoch: int) -> None:
    with path.open("a") as notes:
        for unit in range(partitions):
            for seq in range(GROUPS):
                notes.write(f"A {unit} {epoch} {seq} {GROUP_ROWS}\n")


def run_tasks(args: argparse.Namespace, options: dict[str, str], spark: SparkSession) -> None:
    """Every task fails twice."""
    save(stamped(spark, args.count, 0, fails(str(args.work))), options, "failing")
    note(args.notes, args.count, 0)


def run_twins(args: argparse.Namespace, options: dict[str, str], spark: SparkSession) -> None:
    """The same tasks twice at the same time, as speculation does it where there is another host."""
    with futures.ThreadPoolExecutor(1) as pool:
        twins = pool.submit(write_as_twins, spark, args.count, options)
        save(stamped(spark, args.count, 1, lambda _: None), options, "twins")
        for partition in twins.result():
            (args.work / f"twin-{partition}").touch()
    note(args.notes, args.count, 1)


def write_as_twins(spark: SparkSession, partitions: int, options: dict[str, str]) -> list[int]:
    """The same units by the other way in. Gives the partitions that were written."""
    writer_options = {**options, "groupRows": str(GROUP_ROWS), "job": "twins"}

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = rta_writers.write_partition(batches, **writer_options)
        yield pa.record_batch({"partition": [int(outcome.unit.rpartition("/")[2])]})

    rows = stamped(spark, partitions, 1, lambda _: None).mapInArrow(write, "partition bigint").collect()
    return [row.partition for row in rows]


def run_executors(args: argparse.Namespace, options: dict[str, str], spark: SparkSession) -> None:
    """Executors are killed, and frozen for a while."""
    for epoch, kind in ((2, "killed"), (3, "frozen")):
        save(stamped(spark, args.count, epoch, harms_executor(str(args.work), kind)), options, f"executors-{kind}")
        note(args.notes, args.count, epoch)


def run_stream(args: argparse.Namespace, options: dict[str, str], spark: SparkSession) -> None:
    """A file is an epoch. What a killed driver began, the next one goes on with from the checkpoint.

    One that was killed between taking a file and planning its epoch leaves it to the next epoch, with the one after it:
    in partitions of their own the two would be written side by side, in no order.
    """
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(args.work / "in"))
    source = rta_writers.deterministic(source, partitions=args.count or 1)
    query = (
        source.writeStream.format("rta")
        .option("checkpointLocation", str(args.work / "checkpoint"))
        .options(**options, groupRows=str(GROUP_ROWS))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


RUNS: Final = {"tasks": run_tasks, "twins": run_twins, "executors": run_executors, "stream": run_stream}
REFUSED: Final = 4


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("options", nargs="+", help="name=value, as for a writer")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--classes", type=Path, required=True, help="an archive for JVMs, which the first one makes")
    parser.add_argument("--count", type=int, default=0, help="partitions")
    args = parser.parse_args()
    die_with_parent.enable()
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])  # type: ignore[no-untyped-call]
    cloudpickle.register_pickle_by_value(stamps)  # type: ignore[no-untyped-call]
    spark = session_of("local-cluster[2,1,1024]" if args.run == "executors" else "local[8,4]", args.work, args.classes)
    try:
        RUNS[args.run](args, dict(word.split("=", 1) for word in args.options), spark)
    except PySparkException as error:
        print(error, file=sys.stderr)
        return REFUSED if "with other rows" in str(error) else 1
    spark.stop()
    end_jvm(args.classes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
