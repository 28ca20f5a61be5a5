"""What a driver calls on its Spark session: register the source, tune Spark, make a frame deterministic."""

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rta_wire import errors
from rta_writers.options import arguments
from rta_writers.options.write import GROUP_ROWS
from rta_writers.spark.metrics import Metrics
from rta_writers.spark.source import RtaDataSource
from rta_writers.spark.ui_metrics import UiMetrics

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

_TUNED: Final[dict[int, dict[str, str]]] = {}
"""What `tune` has set, by session: it may change that again, and nothing that a user has set."""


def register(spark: SparkSession, *, tune_spark: bool = True) -> Metrics:
    """Register `format("rta")` with a Spark session, and tune that. Gives the counters of its writers."""
    _check_session(spark)
    arguments.boolean("tune_spark", tune_spark)
    if tune_spark:
        tune(spark)
    metrics = Metrics(spark.sparkContext, UiMetrics(spark).show)
    _ignore_closed_connections(spark.sparkContext)
    attributes = {"metrics": metrics, "pushdown": spark.conf.get(FILTERS, "false") == "true", "__module__": __name__}
    # A class for each session, which Spark pickles by value, together with the counters.
    source = type("RegisteredRtaDataSource", (RtaDataSource,), attributes)
    spark.dataSource.register(source)
    return metrics


def _ignore_closed_connections(context: Any) -> None:
    """Keep a streaming query that is stopped from printing a traceback.

    Spark's JVM sends accumulators of plans and commits from the thread of the query. Stopping a query interrupts the
    thread, which closes the connection; Spark opens another one when it needs it. PySpark's server takes a closed
    connection for an error.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is None or "handle_error" in vars(server):
        return
    handle_other_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            handle_other_error(request, address)

    server.handle_error = handle_error


def tune(spark: SparkSession, *, columns: int = 3) -> dict[str, str]:
    """Set how Spark cuts Arrow batches of frames with so many columns, and that filters reach the reader.

    What a user has set stays. Gives what was set, and logs it.
    """
    _check_session(spark)
    columns = arguments.whole_number("columns", columns, 1, COLUMNS_MAX)
    rows = min(BATCH_ROWS, max(BATCH_ROWS_MIN, BATCH_VALUES // columns))
    settings = {BYTES_PER_BATCH: UNBOUNDED, ROWS_PER_BATCH: str(rows), FILTERS: "true"}
    tuned = _TUNED.setdefault(id(spark), {})
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


def _check_session(spark: Any) -> None:
    if not isinstance(spark, SparkSession):
        raise arguments.refuse("spark", spark, "a SparkSession")


def deterministic(frame: DataFrame, *, partitions: int, by: str | Sequence[str] = ("time",)) -> DataFrame:
    """A frame with the same rows in the same partitions and order each time that it is computed.

    Rows go to one of `partitions` by a hash of the columns `by`, and are sorted by all columns within it. Spark does
    not sort streaming frames: there each partition of a micro-batch is sorted in the memory of its task.
    """
    if not isinstance(frame, DataFrame):
        raise arguments.refuse("frame", frame, "a DataFrame of Spark")
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
