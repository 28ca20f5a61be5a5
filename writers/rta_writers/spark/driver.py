"""What a driver calls on its Spark session: register the source, tune Spark, make a frame replayable, ship us."""

import logging
import sys
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rta_wire import errors
from rta_writers.options.write import GROUP_ROWS
from rta_writers.spark.metrics import Metrics
from rta_writers.spark.source import RtaDataSource
from rta_writers.spark.sql_page import SqlPage

log: Final = logging.getLogger("rta_writers")

BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
UNBOUNDED: Final = "2147483647b"
"""Any other bound makes Spark measure every row, which costs more than all of our work on it."""

BATCH_ROWS: Final = GROUP_ROWS
"""A batch is a group: nothing has to be joined."""

BATCH_ROWS_MIN: Final = 2_048
BATCH_VALUES: Final = 1_650_000
"""Values in a batch, at most about 13 MiB of doubles: Spark holds a batch as a whole on both sides."""

CODEGEN_FIELDS: Final = "spark.sql.codegen.maxFields"
CODEGEN_FIELDS_DEFAULT: Final = 100
"""Frames of more columns are computed by an interpreter, several times slower."""


def register(spark: SparkSession, *, tune_spark: bool = True) -> Metrics:
    """Make `format("rta")` known to a Spark session, and Spark fast at it. Gives the counters of its writers."""
    if tune_spark:
        tune(spark)
    metrics = Metrics(spark.sparkContext, SqlPage(spark).show)
    _ignore_closed_connections(spark.sparkContext)
    own = {"metrics": metrics, "pushdown": spark.conf.get(FILTERS, "false") == "true", "__module__": __name__}
    # A class of its own for each session: Spark pickles it by value, counters and all.
    source = type("RegisteredRtaDataSource", (RtaDataSource,), own)
    spark.dataSource.register(source)
    return metrics


def _ignore_closed_connections(context: Any) -> None:
    """Keep a streaming query that is stopped from printing a traceback.

    Spark's JVM sends counters of plans and commits from the thread of the query. Stopping a query interrupts it, which
    closes the connection; Spark opens another one when it needs it. PySpark's end takes the first for an error.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is None or "handle_error" in vars(server):
        return
    told_before = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            told_before(request, address)

    server.handle_error = handle_error


def tune(spark: SparkSession, *, columns: int = 3) -> dict[str, str]:
    """Set how Spark cuts Arrow batches, for frames of so many columns, and that filters reach the reader.

    What a user has set stays. Gives what it set, and logs it.
    """
    rows = min(BATCH_ROWS, max(BATCH_ROWS_MIN, BATCH_VALUES // max(1, columns)))
    wanted = {BYTES_PER_BATCH: UNBOUNDED, ROWS_PER_BATCH: str(rows), FILTERS: "true"}
    if columns > CODEGEN_FIELDS_DEFAULT // 2:
        wanted[CODEGEN_FIELDS] = str(2 * columns)
    ours = _OURS.setdefault(id(spark), {})
    changed = {}
    for name, value in wanted.items():
        before = spark.conf.get(name, None)
        if before is None or before == ours.get(name):
            spark.conf.set(name, value)
            changed[name] = ours[name] = value
    if changed:
        log.info("set %s", ", ".join(f"{name}={value}" for name, value in changed.items()))
    return changed


_OURS: Final[dict[int, dict[str, str]]] = {}
"""What we set before and may set again."""


def deterministic(frame: DataFrame, *, partitions: int, by: tuple[str, ...] = ("time",)) -> DataFrame:
    """The same rows in the same partitions in the same order, each time they are computed.

    Rows go to one of `partitions` by a hash of the columns `by`, and are sorted by all columns within it. Spark does
    not sort streaming frames: there each partition of a micro-batch is sorted in the memory of its task.
    """
    if partitions < 1:
        raise errors.Usage(reason=f"{partitions} partitions are too few")
    missing = [name for name in by if name not in frame.columns]
    if missing:
        raise errors.Usage(reason=f"There is no column {missing[0]!r} to divide the rows by: pass by=(…)")
    divided = frame.repartition(partitions, *by)
    if not frame.isStreaming:
        return divided.sortWithinPartitions(*frame.columns)
    return divided.mapInArrow(sort_partition, frame.schema)


def sort_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a partition in one order."""
    held = list(batches)
    if held:
        table = pa.Table.from_batches(held)
        simple = [
            (name, "ascending")
            for name, kind in zip(table.schema.names, table.schema.types, strict=True)
            if not pa.types.is_nested(kind)
        ]
        yield from table.sort_by(simple).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
