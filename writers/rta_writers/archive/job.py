"""The Spark job of the archive: `python -m rta_writers.archive.job`, the only part of it that needs PySpark and Java.

Reads whole entries through the source `rta`, brings those of a session together, and lets tasks write files of them.
Then it counts in the streams themselves, without Spark's rows in between, what should be in the files.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import InputPartition

from rta_wire import archive_spec, content_digest, errors
from rta_wire.codec import burst
from rta_writers.archive import parquet, recount
from rta_writers.archive.job_events import ProgressReporter, emit, spark_failure
from rta_writers.archive.rows import SessionLayout
from rta_writers.options import layout as options_layout
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.spark import driver, ship_packages
from rta_writers.spark import reader as spark_reader

SLICE_BYTES: Final = 64 << 20
"""Stored bytes for one task, about 16 million samples: larger sessions are written by several."""

TASKS_MAX: Final = 1024
BATCH_ENTRIES: Final = 256
"""Entries in an Arrow batch of Spark: each is up to a megabyte."""

SessionLayouts = dict[int, SessionLayout]
"""Sessions by stream session id."""

Files = dict[int, tuple[archive_spec.ArchiveFile, ...]]
"""Files that were written, by stream session id."""


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=archive_spec.ArchiveSpec)
    spark = start(spec.master)
    try:
        emit(archive_spec.JobStarted(spark.version))
        for number, pass_spec in enumerate(spec.passes):
            with ProgressReporter(spark, number):
                results = run(spark, spec, pass_spec, functools.partial(_emit_written, number))
            emit(archive_spec.PassDone(number, tuple(results)))
    except errors.RtaError as error:
        emit(archive_spec.JobFailed(type(error).__name__, str(error), error.retriable))
        sys.exit(1)
    except (PySparkException, Py4JError) as error:
        emit(spark_failure(error))
        sys.exit(1)
    finally:
        spark.stop()


def _emit_written(number: int, files: Files) -> None:
    emit(archive_spec.PassWritten(number, files))


def start(master: str) -> SparkSession:
    """A Spark session with the source registered, and shipped where executors are on other hosts."""
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
        ship_packages.ship(spark)
    driver.register(spark)
    return spark


def run(
    spark: SparkSession,
    spec: archive_spec.ArchiveSpec,
    pass_spec: archive_spec.PassSpec,
    on_written: Callable[[Files], None],
) -> list[archive_spec.SessionResult]:
    """Run one pass: write all files of its sessions, then count what the streams hold of them.

    `on_written` is called with the files in between, so that they can be read back while the streams are counted.
    """
    sessions = {number: session for stream in pass_spec.streams for number, session in session_layouts(stream).items()}
    files: dict[int, list[archive_spec.ArchiveFile]] = {}
    problems: dict[int, str] = {}
    for row in write_files(spark, spec, pass_spec, sessions).collect():
        if row.kind == parquet.UNWRITABLE:
            raise errors.ArchiveUnwritable(path=spec.folder, reason=row.file)
        if row.kind == parquet.BROKEN:
            problems[row.stream_session_id] = row.file
        else:
            files.setdefault(row.stream_session_id, []).append(archive_spec.ArchiveFile(row.kind, row.file, row.rows))
    on_written({number: tuple(session_files) for number, session_files in files.items()})
    recounts = count_streams(spark, spec, pass_spec, sessions)
    return [
        session_result(
            number, recounts.get(number, recount.SessionRecount()), files.get(number, []), problems.get(number, "")
        )
        for number in sessions
    ]


def session_layouts(stream: archive_spec.StreamSpec) -> SessionLayouts:
    """How the sessions of a stream are stored."""
    try:
        types = options_layout.LAYOUT_PARSERS["sampleType"](stream.sample_type)
    except ValueError as error:
        where = f"sample_type {stream.sample_type!r} of stream {stream.stream}"
        raise errors.BadConfiguration(where=where, reason=str(error)) from error
    layouts = options_layout.build_layouts({}, types, {}, {})
    framing = burst.Framing(stream.framing)
    return {number: SessionLayout(session.identity, layouts, framing) for number, session in stream.sessions.items()}


def reader_options(spec: archive_spec.ArchiveSpec, stream: archive_spec.StreamSpec) -> dict[str, str]:
    """Options of a Spark reader that gives whole entries of a stream."""
    return {
        "redisUrl": spec.redis_url,
        "keyPrefix": spec.key_prefix,
        "sessionTemplate": spec.session_template,
        "stream": stream.stream,
        "form": ReadForm.ENTRIES.value,
        "startingOffset": stream.after,
        # This one stream, and nothing where it was removed meanwhile.
        "followDays": "false",
        "waitForStream": "true",
        # What is missing is written into the manifest.
        "failOnDataLoss": "false",
    }


def entries_reader(options: ReadOptions) -> spark_reader.BatchReader:
    """A reader of whole entries of a stream, called directly: the entries do not become rows of a Spark frame."""
    return spark_reader.BatchReader(options, spark_reader.spark_schema(options))


def write_files(
    spark: SparkSession,
    spec: archive_spec.ArchiveSpec,
    pass_spec: archive_spec.PassSpec,
    sessions: SessionLayouts,
) -> DataFrame:
    """A frame that writes the files of a pass when it is computed, with a row for each file."""
    frames = [
        spark.read.format("rta")
        .options(**reader_options(spec, stream))
        .load()
        .where(sql.col("stream_session_id").isin(list(stream.sessions)))
        for stream in pass_spec.streams
    ]
    entries = functools.reduce(DataFrame.union, frames).select(
        "stream_session_id",
        "entry",
        "data",
        sql.expr("cast(substring_index(entry, '-', 1) as decimal(20, 0))").alias("ms"),
        sql.expr("cast(substring_index(entry, '-', -1) as decimal(20, 0))").alias("seq"),
    )
    slices = {number: -(-session.size_bytes // SLICE_BYTES) for number, session in pass_spec.sessions.items()}
    large = {number: count for number, count in slices.items() if count > 1}
    small_bytes = sum(session.size_bytes for number, session in pass_spec.sessions.items() if number not in large)
    tasks = max(1, min(TASKS_MAX, sum(large.values()) - (-small_bytes // SLICE_BYTES)))
    partition_keys = [sql.col("stream_session_id"), *([_slice_index(pass_spec.sessions, large)] if large else ())]
    options = parquet.ParquetOptions(spec.level, spec.split_bytes)
    return (
        entries.repartition(tasks, *partition_keys)
        .sortWithinPartitions("stream_session_id", "ms", "seq")
        .select("stream_session_id", "entry", "data")
        .mapInArrow(parquet.ParquetTask(spec.folder, sessions, options), parquet.RESULT_SCHEMA)
    )


def _slice_index(sessions: dict[int, archive_spec.SessionSpec], large: dict[int, int]) -> Column:
    """Which slice of a large session an entry belongs to, by its time. `large` has the number of slices."""
    cases = []
    for number, count in large.items():
        start_ms, end_ms = sessions[number].start_ms, sessions[number].end_ms
        length_ms = max(1, (end_ms - start_ms) // count)
        index = f"least(greatest(floor((ms - {start_ms}) / {length_ms}), 0), {count - 1})"
        cases.append(f"when {number} then {index}")
    return sql.expr(f"case stream_session_id {' '.join(cases)} else 0 end")


def count_streams(
    spark: SparkSession,
    spec: archive_spec.ArchiveSpec,
    pass_spec: archive_spec.PassSpec,
    sessions: SessionLayouts,
) -> dict[int, recount.SessionRecount]:
    """What streams hold of sessions, counted from the entries themselves, by stream session id."""
    ranges: list[tuple[ReadOptions, InputPartition]] = []
    for stream in pass_spec.streams:
        options = ReadOptions.parse(reader_options(spec, stream))
        ranges += [(options, partition) for partition in entries_reader(options).partitions()]
    if not ranges:
        return {}
    count_ranges = functools.partial(_count_ranges, sessions)
    counts = spark.sparkContext.parallelize(ranges, len(ranges)).mapPartitions(count_ranges).collect()
    recounts: dict[int, recount.SessionRecount] = {}
    for number, counted in counts:
        recounts[number] = recounts.get(number, recount.SessionRecount()).sum_of(counted)
    return recounts


def _count_ranges(sessions: SessionLayouts, ranges: Iterator[Any]) -> Iterator[tuple[int, recount.SessionRecount]]:
    for options, partition in ranges:
        yield from recount.recount_sessions(entries_reader(options).read(partition), sessions).items()


def session_result(
    number: int, counted: recount.SessionRecount, files: list[archive_spec.ArchiveFile], problem: str
) -> archive_spec.SessionResult:
    """The result of a session: what its stream holds, its files, and what went wrong."""
    return archive_spec.SessionResult(
        stream_session_id=number,
        entries=counted.entries,
        size_bytes=counted.size_bytes,
        first_id=counted.first_id,
        last_id=counted.last_id,
        begins_with_json=counted.begins_with_json,
        samples=_row_sum(counted.samples),
        events=_row_sum(counted.events),
        files=tuple(sorted(files, key=lambda file: file.name)),
        problem=problem or counted.problem,
    )


def _row_sum(digest: content_digest.Digest) -> archive_spec.RowSum:
    return archive_spec.RowSum(digest.rows, digest.sum)


if __name__ == "__main__":
    main()
