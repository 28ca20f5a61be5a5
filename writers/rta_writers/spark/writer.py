"""What Spark calls to write: a batch or a micro-batch, its tasks, commit and abort."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rta_wire import errors
from rta_writers.options.write import WriteOptions
from rta_writers.spark import worker_gc
from rta_writers.spark.metrics import Metrics, TaskMetrics
from rta_writers.write import commit as write_commit
from rta_writers.write import unit
from rta_writers.write.result import TaskResult
from rta_writers.write.task import Task


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """What one task wrote."""

    result: TaskResult


class BatchWriter(DataSourceArrowWriter):
    """A batch job: its units are new for each `save()` unless it has a name, and the same for each attempt."""

    def __init__(self, options: dict[str, str], job: str, metrics: Metrics | None) -> None:
        self._options = options
        self._job = job
        self._metrics = metrics

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options = WriteOptions.parse(self._options)
        name = unit.unit_of(self._job, _context().partitionId())
        return _write(iterator, options, self._metrics, unit=name, epoch=options.epoch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = WriteOptions.parse(self._options)
        write_commit.commit(options, _results(messages), epoch=options.epoch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write_commit.abort(WriteOptions.parse(self._options), _results(messages))


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
        name = unit.unit_of(query, context.partitionId())
        return _write(
            iterator, WriteOptions.parse(self._options), self._metrics, unit=name, epoch=int(batch), query=query
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        write_commit.commit(WriteOptions.parse(self._options), _results(messages), epoch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        write_commit.abort(WriteOptions.parse(self._options), _results(messages))


def _write(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    metrics: Metrics | None,
    *,
    unit: str,
    epoch: int,
    query: str | None = None,
) -> TaskCommitMessage:
    worker_gc.freeze_gc()
    first = next(batches, None)
    if first is None:
        return TaskCommitMessage(TaskResult(unit, epoch))
    task = Task(options, first.schema, unit=unit, epoch=epoch)
    try:
        task.write(first)
        del first
        for batch in batches:
            task.write(batch)
        outcome = task.finish()
    except BaseException:
        task.abort()
        raise
    finally:
        task.close()
    if metrics is not None:
        execution = _context().getLocalProperty("spark.sql.execution.id")
        metrics.add(TaskMetrics(outcome.effort, None if execution is None else int(execution), query, epoch))
    return TaskCommitMessage(outcome)


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "a writer writes inside a Spark task"
    return context


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, TaskCommitMessage)]
