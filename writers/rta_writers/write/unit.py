"""The unit that a task writes as: derived from the job and the partition, never from the attempt."""

from typing import Any

from rta_wire import errors
from rta_writers.options.write import WriteOptions


def unit_from_context(options: WriteOptions) -> tuple[str, int, int]:
    """Job, epoch and partition: what was asked for, or else what Spark says."""
    context = task_context()
    query = batch = None
    if context is not None:
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
    job = options.job or query
    if job is None:
        raise errors.Usage(
            reason="write_partition needs the option 'job': the same name in every attempt, another for every job"
        )
    epoch = int(batch) if options.job is None and batch is not None else options.epoch
    return job, epoch, 0 if context is None else context.partitionId()


def task_context() -> Any:
    try:
        from pyspark import TaskContext  # noqa: PLC0415 - works without Spark too
    except ImportError:
        return None
    return TaskContext.get()


def unit_of(job: str, partition: int) -> str:
    """The name of a writing unit: it says which rows it writes, never which attempt it is."""
    return f"{job}/{partition}"


def job_of(unit: str) -> str:
    """The job or query that a unit belongs to."""
    return unit.rpartition("/")[0]
