"""The Spark data source `rta`: what Spark calls, and nothing else.

Spark pickles a writer, builds it more than once and runs it in other processes than the commit: a writer holds plain
options, and a task takes its identity from the query and the partition, never from the attempt.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

from rta_wire import errors
from rta_writers.control import resolve
from rta_writers.options.write import Options
from rta_writers.read import plan as read_plan
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader, worker_gc
from rta_writers.spark.metrics import Metrics, Note
from rta_writers.write import commit as write_commit
from rta_writers.write import frames
from rta_writers.write.task import Outcome, Task


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    outcome: Outcome


class RtaDataSource(DataSource):
    """`format("rta")`."""

    metrics: ClassVar[Metrics | None] = None
    """Counters of the driver that registered the source."""

    pushdown: ClassVar[bool] = False
    """Whether Spark may hand us filters: it takes a reader that can do so for an error unless its session allows it."""

    @classmethod
    def name(cls) -> str:
        return "rta"

    def schema(self) -> sql.StructType:
        return spark_reader.schema_of(read_plan.Options.read(self.options))

    def reader(self, schema: sql.StructType) -> DataSourceReader:
        kind = spark_reader.FilteringReader if self.pushdown else spark_reader.BatchReader
        return kind(dict(self.options), schema)

    def streamReader(self, schema: sql.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader.StreamReader(dict(self.options), schema)

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise errors.Usage(reason="Format 'rta' only appends: use .mode(\"append\")")
        options = _checked(dict(self.options), schema)
        return BatchWriter(dict(self.options), options.job or uuid.uuid4().hex, self.metrics)

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        _checked(dict(self.options), schema)
        return StreamWriter(dict(self.options), self.metrics)


class BatchWriter(DataSourceArrowWriter):
    """A batch job: its units are new for each `save()` unless it has a name, and the same for each attempt."""

    def __init__(self, options: dict[str, str], job: str, metrics: Metrics | None) -> None:
        self._options = options
        self._job = job
        self._metrics = metrics

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options = Options.read(self._options)
        unit = write_commit.unit_of(self._job, _context().partitionId())
        return _write(iterator, options, self._metrics, unit=unit, epoch=options.epoch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = Options.read(self._options)
        write_commit.commit(options, _outcomes(messages), epoch=options.epoch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write_commit.abort(Options.read(self._options), _outcomes(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming query: its units live as long as its checkpoint, its epochs are the micro-batches."""

    def __init__(self, options: dict[str, str], metrics: Metrics | None) -> None:
        self._options = options
        self._metrics = metrics

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise errors.Usage(
                reason="Spark gave the task no query and batch id: a streaming write needs a micro-batch"
            )
        unit = write_commit.unit_of(query, context.partitionId())
        return _write(iterator, Options.read(self._options), self._metrics, unit=unit, epoch=int(batch), query=query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        write_commit.commit(Options.read(self._options), _outcomes(messages), epoch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        write_commit.abort(Options.read(self._options), _outcomes(messages))


def _write(
    batches: Iterator[pa.RecordBatch],
    options: Options,
    metrics: Metrics | None,
    *,
    unit: str,
    epoch: int,
    query: str | None = None,
) -> Written:
    worker_gc.settle()
    first = next(batches, None)
    if first is None:
        return Written(Outcome(unit, epoch))
    task = Task(options, first.schema, unit=unit, epoch=epoch)
    try:
        task.write(first)
        del first
        for batch in batches:
            task.write(batch)
        outcome = task.finish()
    except BaseException:
        task.fail()
        raise
    finally:
        task.close()
    if metrics is not None:
        execution = _context().getLocalProperty("spark.sql.execution.id")
        metrics.add(Note(outcome.effort, None if execution is None else int(execution), query, epoch))
    return Written(outcome)


def _checked(given: dict[str, str], schema: sql.StructType) -> Options:
    """Refuse what can't be written before any task starts."""
    worker_gc.settle()
    options = Options.read(given)
    try:
        columns = to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise errors.Usage(reason=f"Format 'rta' can't take the frame: {error}") from error
    frames.choose(options, columns)
    resolve.check(options)
    return options


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "a writer writes inside a Spark task"
    return context


def _outcomes(messages: Sequence[WriterCommitMessage | None]) -> list[Outcome]:
    return [message.outcome for message in messages if isinstance(message, Written)]
