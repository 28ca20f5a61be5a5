"""The Spark job of the archive: `python -m rta_writers.archive.job`, the only part of it that needs PySpark and Java.

Divides streams into ranges, and has a task write the files of each. Then it reads the streams once more and counts what
should have been read.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rta_wire import archive_spec, content_digest, entry_ids, errors
from rta_wire.codec import burst
from rta_writers.archive import parquet
from rta_writers.archive import task as archive_task
from rta_writers.archive.job_events import ProgressReporter, emit, spark_failure
from rta_writers.archive.rows import SessionLayout
from rta_writers.archive.task import ArchiveTask, SessionOutput
from rta_writers.connection import redis_client
from rta_writers.options import layout as options_layout
from rta_writers.options.read import PARTITIONS_MAX, ReadForm, ReadOptions
from rta_writers.read import batches, lookup, plan
from rta_writers.read import channels as read_channels
from rta_writers.spark import driver, ship_packages

StreamRange = tuple[ReadOptions, plan.EntryRange]
"""A range of a stream, and how it is read."""

Outputs = Iterable[tuple[int, SessionOutput]]
"""By stream session id."""

Files = dict[int, tuple[archive_spec.ArchiveFile, ...]]
"""Files that were written, by stream session id."""

RangeFunction = Callable[[Iterable[StreamRange]], Outputs]
MapRanges = Callable[[list[StreamRange], RangeFunction], Outputs]
"""Calls a function with each range, and gives all outputs."""

_NOTHING: Final = SessionOutput()


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
    """Run one pass on Spark."""
    return run_pass(functools.partial(_map_ranges, spark), spec, pass_spec, on_written)


def run_pass(
    map_ranges: MapRanges,
    spec: archive_spec.ArchiveSpec,
    pass_spec: archive_spec.PassSpec,
    on_written: Callable[[Files], None],
) -> list[archive_spec.SessionResult]:
    """Write all files of the sessions of a pass, then count what the streams hold of them.

    `on_written` is called with the files in between, so that they can be read back while the streams are counted.
    """
    sessions: dict[int, SessionLayout] = {}
    for stream in pass_spec.streams:
        sessions |= session_layouts(spec, stream)
    ranges = plan_ranges(spec, pass_spec)
    task = ArchiveTask(spec.folder, sessions, parquet.ParquetOptions(spec.level, spec.split_bytes))
    written = archive_task.total(map_ranges(ranges, functools.partial(_write_ranges, task)))
    check_writable(spec, written.values())
    on_written({number: output.files for number, output in written.items()})
    counted = archive_task.total(map_ranges(ranges, functools.partial(_count_ranges, sessions)))
    results: list[archive_spec.SessionResult] = []
    for stream in pass_spec.streams:
        first_id = first_entry(spec, stream)
        results += [
            session_result(number, written.get(number, _NOTHING), counted.get(number, _NOTHING), first_id)
            for number in stream.sessions
        ]
    return results


def first_entry(spec: archive_spec.ArchiveSpec, stream: archive_spec.StreamSpec) -> str | None:
    """The id at which a stream begins now; None where there is no such stream."""
    options = reader_options(spec, stream)
    with redis_client.connect(options.redis_url) as client:
        counters = lookup.read_counters(client, options, [stream.stream])[stream.stream]
    if not counters.added:
        return None
    return counters.first_id or counters.live_first_id or entry_ids.next_id(counters.last_id)


def check_writable(spec: archive_spec.ArchiveSpec, written: Iterable[SessionOutput]) -> None:
    """Raise where a task could not write to the folder."""
    for output in written:
        if output.problem.startswith(archive_task.UNWRITABLE):
            reason = output.problem.removeprefix(archive_task.UNWRITABLE)
            raise errors.ArchiveUnwritable(path=spec.folder, reason=reason)


def session_layouts(spec: archive_spec.ArchiveSpec, stream: archive_spec.StreamSpec) -> dict[int, SessionLayout]:
    """How the sessions of a stream are stored: as their configurations say, all else as the settings do."""
    try:
        types = options_layout.LAYOUT_PARSERS["sampleType"](stream.sample_type)
    except ValueError as error:
        where = f"sample_type {stream.sample_type!r} of stream {stream.stream}"
        raise errors.BadConfiguration(where=where, reason=str(error)) from error
    layouts = options_layout.build_layouts({}, types, {}, {})
    framing = burst.Framing(stream.framing)
    options = msgspec.structs.replace(reader_options(spec, stream), layouts=layouts)
    identities = {number: session.identity for number, session in stream.sessions.items()}
    with redis_client.connect(spec.redis_url) as client:
        channels = read_channels.of_sessions(client, options, identities)
    return {
        number: SessionLayout(
            *(session.identity, channels.layouts(number), framing, session.after, session.part),
            channels.listed(number),
        )
        for number, session in stream.sessions.items()
    }


def reader_options(spec: archive_spec.ArchiveSpec, stream: archive_spec.StreamSpec) -> ReadOptions:
    """Options of a reader that gives whole entries of a stream."""
    size_bytes = sum(session.size_bytes for session in stream.sessions.values())
    return ReadOptions.parse(
        {
            "redisUrl": spec.redis_url,
            "keyPrefix": spec.key_prefix,
            "sessionTemplate": spec.session_template,
            "stream": stream.stream,
            "form": ReadForm.ENTRIES.value,
            "partitions": str(min(PARTITIONS_MAX, max(1, -(-size_bytes // archive_task.GATHERED_BYTES)))),
            # What is missing is written into the manifest.
            "failOnDataLoss": "false",
        }
    )


def plan_ranges(spec: archive_spec.ArchiveSpec, pass_spec: archive_spec.PassSpec) -> list[StreamRange]:
    """The ranges of all streams, each about as much as a task gathers."""
    ranges: list[StreamRange] = []
    for stream in pass_spec.streams:
        options = reader_options(spec, stream)
        with redis_client.connect(options.redis_url) as client:
            counters = lookup.read_counters(client, options, [stream.stream])[stream.stream]
        position = lookup.ReadPosition(stream.stream, stream.after)
        until = min(stream.until, counters.last_id, key=entry_ids.parse)
        ranges += [(options, part) for part in plan.plan_ranges(position, counters, options, {}, until)]
    return ranges


def read_pages(stream_range: StreamRange) -> Iterator[Any]:
    """The entries of a range, some at a time."""
    options, entry_range = stream_range
    with redis_client.connect(options.redis_url) as client:
        yield from batches.read_pages(client, options, entry_range)


def _map_ranges(spark: SparkSession, ranges: list[StreamRange], function: RangeFunction) -> Outputs:
    """What a function gives for each range, which is a task."""
    if not ranges:
        return []
    outputs: Outputs = spark.sparkContext.parallelize(ranges, len(ranges)).mapPartitions(function).collect()
    return outputs


def _write_ranges(task: ArchiveTask, ranges: Iterable[StreamRange]) -> Outputs:
    for stream_range in ranges:
        yield from task.write(read_pages(stream_range))


def _count_ranges(sessions: dict[int, SessionLayout], ranges: Iterable[StreamRange]) -> Outputs:
    for stream_range in ranges:
        yield from archive_task.count_entries(read_pages(stream_range), sessions)


def session_result(
    number: int, written: SessionOutput, counted: SessionOutput, first_id: str | None = None
) -> archive_spec.SessionResult:
    """The result of a session: what was read of it, what its stream holds, its files, and what went wrong.

    `first_id`: the entry at which its stream began once it was counted.
    """
    return archive_spec.SessionResult(
        stream_session_id=number,
        size_bytes=written.size_bytes,
        first_id=written.first_id,
        last_id=written.last_id,
        begins_with_json=written.begins_with_json,
        read=_row_sum(written.entries),
        counted=_row_sum(counted.entries),
        trimmed=_row_sum(written.trimmed_since(counted, first_id)),
        **{kind: _row_sum(digest) for kind, digest in written.digests.items()},
        files=tuple(sorted(written.files, key=lambda file: (entry_ids.parse(file.first_id), file.name))),
        problem=written.problem,
    )


def _row_sum(digest: content_digest.Digest) -> archive_spec.RowSum:
    return archive_spec.RowSum(digest.rows, digest.sum)


if __name__ == "__main__":
    main()
