"""The unit that a task writes as, from a job and a partition, and its epoch. The attempt is never part of it.

Rows that are tried again under the same unit and epoch are the same rows: that is what makes them appear once.
"""

import uuid
from typing import Any, Final, NamedTuple

from rta_wire import errors, limits, name_checks
from rta_writers.options import arguments, parse
from rta_writers.options.write import WriteOptions

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties of a Spark task in a streaming query."""


class TaskUnit(NamedTuple):
    """The unit and the epoch that a task writes, and the id of its streaming query where it is in one."""

    name: str
    epoch: int
    query: str | None = None


def unit_of(job: str, partition: int) -> str:
    """The name of the unit that writes a partition of a job or query."""
    return f"{job}/{partition}"


def job_of(unit: str) -> str:
    """The job or query that a unit belongs to."""
    return unit.rpartition("/")[0]


def job_name(options: WriteOptions) -> str:
    """The job of the options, or a new one: chosen once on the driver, for all tasks of a write."""
    return options.job or uuid.uuid4().hex


def program_unit(name: object) -> str:
    """The unit of a program that is no Spark task, by its own name or a new one."""
    if name is None:
        return unit_of(uuid.uuid4().hex, 0)
    if not isinstance(name, str) or not name:
        reason = "it is text that is not empty, or None for a new unit"
        raise errors.BadName(what="Unit", value=parse.quote(name), reason=reason)
    return name_checks.check_unit(unit_of(name, 0))


def check_epoch(epoch: object) -> int:
    """The number of an epoch, if it is one. A mark with any other can't be read again."""
    return arguments.whole_number("epoch", epoch, 0, limits.EPOCH_MAX)


def batch_unit(job: str, options: WriteOptions) -> TaskUnit:
    """The unit of this Spark task in a batch write."""
    return TaskUnit(unit_of(job, task_context().partitionId()), options.epoch)


def streaming_unit() -> TaskUnit:
    """The unit of this Spark task in a streaming query: the query is the job, the micro-batch the epoch."""
    context = task_context()
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise errors.Usage(reason="Spark gave the task no query and batch id: a streaming write needs a micro-batch")
    return TaskUnit(unit_of(query, context.partitionId()), int(batch), query)


def partition_unit(options: WriteOptions) -> TaskUnit:
    """The unit of a partition that is written without the data source: from the options, or else from Spark's task."""
    context = _current_context()
    query = batch = None
    if context is not None:
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    job = options.job or query
    if job is None:
        raise errors.Usage(
            reason="write_partition needs the option 'job': the same name in every attempt, another for every job"
        )
    epoch = int(batch) if options.job is None and batch is not None else options.epoch
    return TaskUnit(unit_of(job, 0 if context is None else context.partitionId()), epoch, query)


def task_context() -> Any:
    """The context of this Spark task."""
    context = _current_context()
    assert context is not None, "a writer writes inside a Spark task"
    return context


def _current_context() -> Any:
    try:
        from pyspark import TaskContext  # noqa: PLC0415 - works without Spark too
    except ImportError:
        return None
    return TaskContext.get()
