"""What a driver calls on its Spark session: register the source, tune Spark, make a frame deterministic."""

import logging
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.utils import to_str

from rta_wire import errors
from rta_writers.options import arguments
from rta_writers.options.write import GROUP_ROWS, WriteOptions
from rta_writers.spark import connect, import_guard, query_start
from rta_writers.spark.metrics import Metrics
from rta_writers.spark.source import RtaDataSource

log: Final = logging.getLogger("rta_writers")

BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
UNBOUNDED: Final = "2147483647b"
"""No bound in bytes. Any other makes Spark measure every row, which costs more than writing it."""

BATCH_ROWS: Final = GROUP_ROWS
"""Rows of an Arrow batch: as many as a group of the writer, so that batches need not be joined."""

BATCH_ROWS_MIN: Final = 512
"""Rows of a batch of very many columns: each column of a batch has a fixed cost, in the JVM and in the encoder."""

BATCH_VALUES: Final = 1_650_000
"""Values in a batch, at most about 13 MiB of doubles: both Spark and Python hold a whole batch in memory."""

COLUMNS_MAX: Final = 1_000_000
PARTITIONS_MAX: Final = 2**31 - 1
"""What Spark takes."""

CODEGEN_FIELDS: Final = "spark.sql.codegen.maxFields"
CODEGEN_FIELDS_DEFAULT: Final = 100
CODEGEN_COLUMNS_MAX: Final = 128
"""Columns for which Spark is made to generate one method. Frames of 100 columns out of Parquet are 1.5 times as fast by
it. From 200 on it is too large for Java to compile: slower, and at 5,000 compiling it takes more than the heap."""

_TUNED: Final[weakref.WeakKeyDictionary[SparkSession, dict[str, str]]] = weakref.WeakKeyDictionary()
"""What `tune` has set, by session: it may change that again, and nothing that a user has set."""


def register(spark: SparkSession, *, tune_spark: bool = True) -> Metrics:
    """Register `format("rta")` with a Spark session, and tune that. Gives the counters of its writers.

    From then on `start()` of a streaming query raises what its writer would refuse. Over Spark Connect that is what can
    be told from the options alone, and nothing is counted.
    """
    connect.check_session(spark)
    arguments.boolean("tune_spark", tune_spark)
    if tune_spark and spark not in _TUNED:  # else it may be tuned for wide frames
        tune(spark)
    if connect.is_remote(spark):
        connect.register(spark, import_guard.guarded_source(RtaDataSource))
        _check_remote_queries()
        log.info("Spark Connect: tasks can't count what they write, for these metrics and for Spark's SQL page")
        return Metrics(None)
    # A client of Spark Connect need not have py4j, which these import.
    from rta_writers.spark import driver_log, ui_metrics  # noqa: PLC0415

    metrics = Metrics(spark.sparkContext, ui_metrics.UiMetrics(spark).show)
    driver_log.ignore_closed_connections(spark.sparkContext)
    driver_log.ignore_replacements(spark.sparkContext)
    spark.dataSource.register(import_guard.guarded_source(RtaDataSource, metrics=metrics))
    query_start.check_at_start(DataStreamWriter, RtaDataSource.name(), query_start.driver_sink, _check_query)
    return metrics


def tune(spark: SparkSession, *, columns: int = 3) -> dict[str, str]:
    """Set how Spark cuts Arrow batches of frames with so many columns, and that filters reach the reader.

    What a user has set stays. Gives what was set, and logs it.
    """
    connect.check_session(spark)
    columns = arguments.whole_number("columns", columns, 1, COLUMNS_MAX)
    rows = min(BATCH_ROWS, max(BATCH_ROWS_MIN, BATCH_VALUES // columns))
    settings = {BYTES_PER_BATCH: UNBOUNDED, ROWS_PER_BATCH: str(rows), FILTERS: "true"}
    tuned = _TUNED.setdefault(spark, {})
    if CODEGEN_FIELDS_DEFAULT // 2 < columns <= CODEGEN_COLUMNS_MAX:
        settings[CODEGEN_FIELDS] = str(2 * columns)
    elif CODEGEN_FIELDS in tuned:
        settings[CODEGEN_FIELDS] = str(CODEGEN_FIELDS_DEFAULT)
    changed = {}
    for name, value in settings.items():
        current = spark.conf.get(name, None)
        if current is None or current == tuned.get(name):
            spark.conf.set(name, value)
            changed[name] = tuned[name] = value
    if changed:
        log.info("set %s", ", ".join(f"{name}={value}" for name, value in changed.items()))
    return changed


def check(frame: DataFrame, **options: Any) -> None:
    """Raise what a writer with these options would refuse about them, the columns of a frame, the session or Redis.

    `start()` of a streaming query raises the same after `register`, but over Spark Connect.
    """
    _check_frame(frame)
    RtaDataSource({name: to_str(value) or "" for name, value in options.items()}).write_options(frame.schema)


def _check_query(writer: Any, options: dict[str, str]) -> None:
    RtaDataSource(options).write_options(writer._df.schema)  # noqa: SLF001 - the frame that is written


def _check_remote_queries() -> None:
    """Options of queries over Spark Connect: Redis and the session may be in reach of the server alone."""
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as RemoteWriter  # noqa: PLC0415 - needs grpc

    def check_options(_: Any, options: dict[str, str]) -> None:
        WriteOptions.parse(options)

    query_start.check_at_start(RemoteWriter, RtaDataSource.name(), query_start.remote_sink, check_options)


def deterministic(frame: DataFrame, *, partitions: int, by: str | Sequence[str] = ("time",)) -> DataFrame:
    """A frame with the same rows in the same partitions and order each time that it is computed.

    Rows go to one of `partitions` by a hash of the columns `by`, and are sorted by all columns within it. Spark does
    not sort streaming frames: there each partition of a micro-batch is sorted in the memory of its task.
    """
    _check_frame(frame)
    partitions = arguments.whole_number("partitions", partitions, 1, PARTITIONS_MAX)
    by = (by,) if isinstance(by, str) else by
    if not isinstance(by, (list, tuple)) or not by or not all(isinstance(name, str) for name in by):
        raise arguments.refuse("by", by, "names of columns, such as ('time', 'channel')")
    missing = [name for name in by if name not in frame.columns]
    if missing:
        raise errors.Usage(reason=f"There is no column {missing[0]!r} to divide the rows by: pass by=(…)")
    repartitioned = frame.repartition(partitions, *by)
    if not frame.isStreaming:
        return repartitioned.sortWithinPartitions(*frame.columns)
    return repartitioned.mapInArrow(sort_partition, frame.schema)


def _check_frame(frame: Any) -> None:
    if not isinstance(frame, DataFrame):
        raise arguments.refuse("frame", frame, "a DataFrame of Spark")


def sort_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition sorted by all columns but nested ones, which Arrow does not compare."""
    waiting = list(batches)
    if waiting:
        table = pa.Table.from_batches(waiting)
        sort_keys = [
            (name, "ascending")
            for name, kind in zip(table.schema.names, table.schema.types, strict=True)
            if not pa.types.is_nested(kind)
        ]
        yield from table.sort_by(sort_keys).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
