"""The Spark job of the archive. Runs as a process of its own: the only part of it that needs PySpark and Java.

Reads whole entries through the source `rta`, brings those of a session together, and lets tasks make files of them.
Then it counts in the streams themselves, without Spark's rows in between, what should be in the files.
"""

import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from rta_wire import archive_spec, content_digest, errors
from rta_wire.codec import burst
from rta_writers.archive import parquet, recount
from rta_writers.options import layout as options_layout
from rta_writers.options import read as options_read
from rta_writers.spark import driver, ship
from rta_writers.spark import reader as spark_reader

SLICE_BYTES: Final = 64 << 20
"""Stored bytes for one task, about 16 million samples: larger sessions are written by several."""

TASKS_MAX: Final = 1024
POLL_S: Final = 0.3
BATCH_ENTRIES: Final = 256
"""Entries that Spark hands over at a time: they are up to a megabyte each."""

_NAMED: Final = re.compile(r"rta_wire\.errors\.(\w+): (.+)")


def main() -> None:
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=archive_spec.ArchiveSpec)
    spark = start(order.master)
    try:
        emit(archive_spec.JobStarted(spark.version))
        for number, one in enumerate(order.passes):
            with ProgressReporter(spark, number):
                outcomes = run(spark, order, one, functools.partial(_tell_written, number))
            emit(archive_spec.PassDone(number, tuple(outcomes)))
    except errors.RtaError as error:
        emit(archive_spec.JobFailed(type(error).__name__, str(error), error.retriable))
        sys.exit(1)
    except (PySparkException, Py4JError) as error:
        emit(failure(error))
        sys.exit(1)
    finally:
        spark.stop()


def start(master: str) -> SparkSession:
    builder = SparkSession.Builder().master(master).appName("rta-supervisor archive")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ENTRIES),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if not master.startswith("local"):
        ship.ship(spark)
    driver.register(spark)
    return spark


Files = dict[int, tuple[archive_spec.ArchiveFile, ...]]


def _tell_written(number: int, files: Files) -> None:
    emit(archive_spec.PassWritten(number, files))


def run(
    spark: SparkSession,
    order: archive_spec.ArchiveSpec,
    one: archive_spec.PassSpec,
    on_written: Callable[[Files], None],
) -> list[archive_spec.SessionResult]:
    """One pass: all files of its sessions, and what the streams hold of them.

    Who is told of the files can read them back while the rest is done.
    """
    wanted = {number: found for stream in one.streams for number, found in _wanted(stream).items()}
    files: dict[int, list[archive_spec.ArchiveFile]] = {}
    problems: dict[int, str] = {}
    for row in write_files(spark, order, one, wanted).collect():
        if row.kind == parquet.UNWRITABLE:
            raise errors.ArchiveUnwritable(path=order.folder, reason=row.file)
        if row.kind == parquet.BROKEN:
            problems[row.stream_session_id] = row.file
        else:
            files.setdefault(row.stream_session_id, []).append(archive_spec.ArchiveFile(row.kind, row.file, row.rows))
    on_written({number: tuple(some) for number, some in files.items()})
    counted = count_streams(spark, order, one, wanted)
    return [
        _outcome(number, counted.get(number, recount.SessionRecount()), files.get(number, []), problems.get(number, ""))
        for number in wanted
    ]


def _wanted(stream: archive_spec.StreamSpec) -> dict[int, parquet.SessionLayout]:
    try:
        parsed = options_layout.LAYOUT_PARSERS["sampleType"](stream.sample_type)
    except ValueError as error:
        where = f"sample_type {stream.sample_type!r} of stream {stream.stream}"
        raise errors.BadConfiguration(where=where, reason=str(error)) from error
    layouts = options_layout.build_layouts({}, parsed, {}, {})
    framing = burst.Framing(stream.framing)
    return {number: parquet.SessionLayout(one.identity, layouts, framing) for number, one in stream.sessions.items()}


def _given(order: archive_spec.ArchiveSpec, stream: archive_spec.StreamSpec) -> dict[str, str]:
    return {
        "redisUrl": order.redis_url,
        "keyPrefix": order.key_prefix,
        "sessionTemplate": order.session_template,
        "stream": stream.stream,
        "form": options_read.ReadForm.ENTRIES.value,
        "startingOffset": stream.after,
        # What is gone is written into the manifest.
        "failOnDataLoss": "false",
    }


def write_files(
    spark: SparkSession,
    order: archive_spec.ArchiveSpec,
    one: archive_spec.PassSpec,
    wanted: dict[int, parquet.SessionLayout],
) -> DataFrame:
    """The files that tasks wrote."""
    frames = [
        spark.read.format("rta")
        .options(**_given(order, stream))
        .load()
        .where(sql.col("stream_session_id").isin(list(stream.sessions)))
        for stream in one.streams
    ]
    entries = functools.reduce(DataFrame.union, frames).select(
        "stream_session_id",
        "entry",
        "data",
        sql.expr("cast(substring_index(entry, '-', 1) as decimal(20, 0))").alias("ms"),
        sql.expr("cast(substring_index(entry, '-', -1) as decimal(20, 0))").alias("seq"),
    )
    slices = {number: -(-session.size_bytes // SLICE_BYTES) for number, session in one.sessions.items()}
    large = {number: count for number, count in slices.items() if count > 1}
    rest = sum(session.size_bytes for number, session in one.sessions.items() if number not in large)
    tasks = max(1, min(TASKS_MAX, sum(large.values()) - (-rest // SLICE_BYTES)))
    keys = [sql.col("stream_session_id"), *([_slice(one.sessions, large)] if large else ())]
    writer = parquet.ParquetTask(order.folder, wanted, parquet.ParquetOptions(order.level, order.split_bytes))
    return (
        entries.repartition(tasks, *keys)
        .sortWithinPartitions("stream_session_id", "ms", "seq")
        .select("stream_session_id", "entry", "data")
        .mapInArrow(writer, parquet.RESULT_SCHEMA)
    )


def _slice(sessions: dict[int, archive_spec.SessionSpec], large: dict[int, int]) -> Column:
    """Which part of a large session an entry belongs to, by its time."""
    cases = []
    for number, count in large.items():
        start_ms, end_ms = sessions[number].start_ms, sessions[number].end_ms
        length_ms = max(1, (end_ms - start_ms) // count)
        part = f"least(greatest(floor((ms - {start_ms}) / {length_ms}), 0), {count - 1})"
        cases.append(f"when {number} then {part}")
    return sql.expr(f"case stream_session_id {' '.join(cases)} else 0 end")


def count_streams(
    spark: SparkSession,
    order: archive_spec.ArchiveSpec,
    one: archive_spec.PassSpec,
    wanted: dict[int, parquet.SessionLayout],
) -> dict[int, recount.SessionRecount]:
    """What streams hold of sessions, counted from the entries themselves."""
    todo = [(given, part) for stream in one.streams for given, part in _ranges(_given(order, stream))]
    if not todo:
        return {}
    counts = spark.sparkContext.parallelize(todo, len(todo)).mapPartitions(functools.partial(_count, wanted)).collect()
    found: dict[int, recount.SessionRecount] = {}
    for number, some in counts:
        found[number] = found.get(number, recount.SessionRecount()).sum_of(some)
    return found


def _ranges(given: dict[str, str]) -> list[tuple[dict[str, str], Any]]:
    read = spark_reader.BatchReader(given, spark_reader.spark_schema(options_read.ReadOptions.parse(given)))
    return [(given, part) for part in read.partitions()]


def _count(
    wanted: dict[int, parquet.SessionLayout], todo: Iterator[Any]
) -> Iterator[tuple[int, recount.SessionRecount]]:
    for given, part in todo:
        read = spark_reader.BatchReader(given, spark_reader.spark_schema(options_read.ReadOptions.parse(given)))
        yield from recount.recount_sessions(read.read(part), wanted).items()


def _outcome(
    number: int, found: recount.SessionRecount, files: list[archive_spec.ArchiveFile], problem: str
) -> archive_spec.SessionResult:
    return archive_spec.SessionResult(
        stream_session_id=number,
        entries=found.entries,
        size_bytes=found.size_bytes,
        first_id=found.first_id,
        last_id=found.last_id,
        begins_with_json=found.begins_with_json,
        samples=_counted(found.samples),
        events=_counted(found.events),
        files=tuple(sorted(files, key=lambda file: file.name)),
        problem=problem or found.problem,
    )


def _counted(found: content_digest.Digest) -> archive_spec.RowSum:
    return archive_spec.RowSum(found.rows, found.sum)


def failure(error: Exception) -> archive_spec.JobFailed:
    """What went wrong in a task, by its own name where it is one of ours."""
    if named := _NAMED.findall(str(error)):
        code, message = named[-1]
        return archive_spec.JobFailed(code, message.strip())
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
    return archive_spec.JobFailed(
        "Unavailable", f"Spark is not available: {lines[0] if lines else type(error).__name__}"
    )


class ProgressReporter:
    """Tells how many tasks of a pass are done while it runs."""

    STAGES: Final = 3
    """Read, write, count."""

    def __init__(self, spark: SparkSession, number: int) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._number = number
        self._over = threading.Event()
        self._seen: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(POLL_S):
            for stage in self._tracker.getActiveStageIds():
                if (info := self._tracker.getStageInfo(stage)) is not None and info.numTasks:
                    self._seen[stage] = info.numCompletedTasks / info.numTasks
            done = sum(1.0 if stage < max(self._seen, default=0) else share for stage, share in self._seen.items())
            emit(archive_spec.JobProgress(self._number, min(done / self.STAGES, 1.0)))


_telling: Final = threading.Lock()


def emit(answer: archive_spec.JobEvent) -> None:
    """One line for the command that started us."""
    with _telling:
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
