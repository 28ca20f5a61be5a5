"""The Spark data source `rta`: rows of (channel, time, value) to the stream of an open session.

Spark pickles a writer, builds it more than once and runs it in other processes than the commit: a writer holds plain
options, and a task takes its identity from the query and the partition, never from the attempt.
"""

import functools
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rta_wire import control, control_pb2, encode, errors, keys
from rta_wire.totals import Totals
from rta_writers import columns, connection
from rta_writers.append import Appender
from rta_writers.target import Target

REPORT_S: Final = 1.0
ROWS_PER_GROUP: Final = 65_536
"""Rows that are encoded together and appended in one transaction, whatever batches Spark makes."""

_CHANNEL_TYPES: Final = (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType)
_TIME_TYPES: Final = (sql.LongType, sql.TimestampType, sql.TimestampNTZType)
_VALUE_TYPES: Final = (*_CHANNEL_TYPES, sql.FloatType, sql.DoubleType)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    unit: str
    totals: Totals
    duplicate_rows: int


class RtaDataSource(DataSource):
    """`format("rta")`."""

    @classmethod
    def name(cls) -> str:
        return "rta"

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise errors.Usage(reason="Format 'rta' only appends: use .mode(\"append\")")
        check_schema(schema)
        return BatchWriter(_options(self.options))

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        check_schema(schema)
        return StreamWriter(_options(self.options))


class BatchWriter(DataSourceArrowWriter):
    """A batch job: its units are new for each `save()`, and the same for each attempt of a task."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        unit = f"{self._job}/{_context().partitionId()}"
        return write_rows(iterator, Target.from_options(self._options), unit=unit, epoch=0)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming query: its units live as long as its checkpoint, its epochs are the micro-batches."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise errors.Usage(
                reason="Spark gave the task no query and batch id: a streaming write needs a micro-batch"
            )
        unit = f"{query}/{context.partitionId()}"
        return write_rows(iterator, Target.from_options(self._options), unit=unit, epoch=int(batch))


def write_rows(batches: Iterator[pa.RecordBatch], target: Target, *, unit: str, epoch: int) -> Written:
    """Rows to bursts to the stream, with a report every second and one at the end."""
    client = connection.connect(target.redis_url)
    appender = Appender(client, target, unit=unit, epoch=epoch)
    reported_s = time.monotonic()
    try:
        for group in groups(batches):
            appender.append(group.num_rows, functools.partial(encode_long, group))
            if time.monotonic() - reported_s >= REPORT_S:
                _report(client, target, unit, appender.totals())
                reported_s = time.monotonic()
        totals = appender.totals()
        if totals.bursts:
            _report(client, target, unit, totals)
        return Written(unit, totals, appender.duplicate_rows)
    finally:
        appender.close()
        client.close()


def encode_long(group: pa.Table, skip: int) -> Iterator[encode.Burst]:
    """Bursts of a group of rows, without the first `skip`."""
    return encode.timestamped(*columns.long_form(group.slice(skip)))


def groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, in tables of `ROWS_PER_GROUP`."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_GROUP:
            table = pa.Table.from_batches(waiting)
            whole = rows - rows % ROWS_PER_GROUP
            for first in range(0, whole, ROWS_PER_GROUP):
                yield table.slice(first, ROWS_PER_GROUP)
            rest = table.slice(whole)
            waiting, rows = rest.to_batches(), rest.num_rows
    if rows:
        yield pa.Table.from_batches(waiting)


def check_schema(schema: sql.StructType) -> None:
    """Refuse a frame that can't be written before any task starts."""
    wanted: Mapping[str, tuple[type[sql.DataType], ...]] = {
        columns.CHANNEL: _CHANNEL_TYPES,
        columns.TIME: _TIME_TYPES,
        columns.VALUE: _VALUE_TYPES,
    }
    have = {field.name: field.dataType for field in schema.fields}
    for name, kinds in wanted.items():
        if name not in have:
            raise errors.Usage(
                reason=f"Format 'rta' needs a column {name!r}; the frame has {', '.join(have) or 'none'}"
            )
        if not isinstance(have[name], kinds):
            names = ", ".join(kind.typeName() for kind in kinds)
            raise errors.Usage(reason=f"Column {name!r} is {have[name].simpleString()}; format 'rta' takes {names}")
    if surplus := set(have) - set(wanted):
        raise errors.Usage(
            reason=f"Format 'rta' does not know the columns {', '.join(sorted(surplus))}: drop them first"
        )


def _options(options: Mapping[str, str]) -> dict[str, str]:
    plain = dict(options)
    Target.from_options(plain)
    return plain


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "a writer writes inside a Spark task"
    return context


def _report(client: Any, target: Target, unit: str, totals: Totals) -> None:
    message = control_pb2.Progress(
        identity=target.identity,
        stream_session_id=target.stream_session_id,
        unit=unit,
        totals=totals.to_message(),
    )
    client.xadd(target.keys.reports(target.principal), {keys.CONTROL_FIELD: control.pack(message)})
