"""The writers of the data source, for a batch and for a streaming query: their tasks, commit and abort.

Spark pickles a writer, builds it more than once and runs it in other processes than the commit: a writer holds plain
values, and a task takes its unit from the query and the partition, never from the attempt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rta_writers.options.write import WriteOptions
from rta_writers.spark import worker_gc
from rta_writers.spark.import_guard import Guarded
from rta_writers.spark.metrics import Metrics, TaskMetrics
from rta_writers.write import commit as write_commit
from rta_writers.write import task_unit
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult

EXECUTION_ID: Final = "spark.sql.execution.id"


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The result of one task, on its way to the commit."""

    result: TaskResult


class BatchWriter(Guarded, DataSourceArrowWriter):
    """Writes a batch. The job is new for each `save()` unless it has a name, and the same for all of its attempts."""

    def __init__(self, options: WriteOptions, job: str, metrics: Metrics | None) -> None:
        self._options = options
        self._job = job
        self._metrics = metrics

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options, task_unit.batch_unit(self._job, self._options), self._metrics)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write_commit.commit(self._options, _results(messages), epoch=self._options.epoch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        write_commit.abort(self._options, _results(messages))


class StreamWriter(Guarded, DataSourceStreamArrowWriter):
    """Writes a streaming query. Its units live as long as its checkpoint, its epochs are the micro-batches."""

    def __init__(self, options: WriteOptions, metrics: Metrics | None) -> None:
        self._options = options
        self._metrics = metrics

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options, task_unit.streaming_unit(), self._metrics)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        write_commit.commit(self._options, _results(messages), epoch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        write_commit.abort(self._options, _results(messages))


def _write(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, unit: task_unit.TaskUnit, metrics: Metrics | None
) -> TaskCommitMessage:
    worker_gc.freeze_gc()
    first = next(batches, None)
    if first is None:
        return TaskCommitMessage(TaskResult(unit.name, unit.epoch))
    task = Task(options, first.schema, unit=unit.name, epoch=unit.epoch)
    try:
        task.write(first)
        del first
        for batch in batches:
            task.write(batch)
        result = task.finish()
    except BaseException:
        task.abort()
        raise
    finally:
        task.close()
    if metrics is not None:
        execution = task_unit.task_context().getLocalProperty(EXECUTION_ID)
        execution_id = None if execution is None else int(execution)
        metrics.add(TaskMetrics(result.effort, execution_id, unit.query, unit.epoch))
    return TaskCommitMessage(result)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, TaskCommitMessage)]
