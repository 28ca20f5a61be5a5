"""Counters of writers: tasks send theirs through an accumulator of Spark, the driver adds them up and shows them.

Attempts that failed are not counted; what they wrote is counted as duplicates by the attempt that succeeded.
"""

import collections
from collections.abc import Callable
from typing import Any, Final

import msgspec
from pyspark.accumulators import AccumulatorParam

from rta_writers.options import arguments
from rta_writers.write.task_result import TaskStats

EPOCHS_KEPT: Final = 100
"""Epochs of all queries whose counters are kept, as many as Spark keeps of a query's progress."""


class TaskMetrics(msgspec.Struct, frozen=True):
    """Counters of one task, and the query that it belongs to."""

    stats: TaskStats
    execution: int | None = None
    """Spark's number of the execution, as its UI shows it."""

    query: str | None = None
    epoch: int = 0


class TaskMetricsParam(AccumulatorParam[tuple[TaskMetrics, ...]]):
    """How an accumulator adds: collects counters in a task, and passes them to a function on the driver."""

    def __init__(self, on_task: Callable[[TaskMetrics], None] | None = None) -> None:
        self._on_task = on_task

    def zero(self, value: tuple[TaskMetrics, ...]) -> tuple[TaskMetrics, ...]:  # noqa: ARG002 - Spark's name
        return ()

    def addInPlace(self, value1: tuple[TaskMetrics, ...], value2: tuple[TaskMetrics, ...]) -> tuple[TaskMetrics, ...]:  # noqa: N802 - Spark's name
        if self._on_task is None:
            return value1 + value2
        for task in value2:
            self._on_task(task)
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the function, which stays on the driver."""
        return TaskMetricsParam, ()


class Metrics:
    """Counters of all writes through one registration. In tasks it can only be added to; the driver reads it.

    Without a Spark context, over Spark Connect, there are none.
    """

    def __init__(self, context: Any, show: Callable[[int, TaskStats], None] | None = None) -> None:
        self._sum = TaskStats()
        self._show = show
        self._epochs: collections.OrderedDict[tuple[str, int], TaskStats] = collections.OrderedDict()
        self._accumulator = context and context.accumulator((), TaskMetricsParam(self._add_task))

    def __repr__(self) -> str:
        if "_sum" not in vars(self):
            return "Metrics(of a task, which can only add to them)"
        if self._accumulator is None:
            return "Metrics(over Spark Connect, where nothing is counted)"
        return f"Metrics({', '.join(f'{name}={count}' for name, count in self.as_dict().items())})"

    def add(self, task: TaskMetrics) -> None:
        """Send the counters of a task to the driver."""
        self._accumulator.add((task,))

    def effort(self) -> TaskStats:
        """The sum over all tasks so far, on the driver."""
        return self._sum

    def as_dict(self) -> dict[str, float]:
        """Counters of all tasks so far by name, with the compression ratio."""
        return stats_dict(self._sum) if self._accumulator is not None else {}

    def progress(self, query: Any) -> list[dict[str, Any]]:
        """The recent progress of a streaming query as Spark gives it, with the counters of each epoch as `rta`."""
        if not hasattr(query, "recentProgress"):
            raise arguments.refuse("query", query, "a streaming query, as start() gives it")
        return [
            {**epoch, "rta": self._epoch_dict(str(query.id), int(epoch["batchId"]))} for epoch in query.recentProgress
        ]

    def _epoch_dict(self, query: str, epoch: int) -> dict[str, float]:
        return stats_dict(self._epochs.get((query, epoch), TaskStats())) if self._accumulator is not None else {}

    def _add_task(self, task: TaskMetrics) -> None:
        self._sum = sum_stats(self._sum, task.stats)
        if task.query is not None:
            epoch = task.query, task.epoch
            self._epochs[epoch] = sum_stats(self._epochs.get(epoch, TaskStats()), task.stats)
            if len(self._epochs) > EPOCHS_KEPT:
                self._epochs.popitem(last=False)
        if task.execution is not None and self._show is not None:
            self._show(task.execution, task.stats)

    def __getstate__(self) -> dict[str, Any]:
        return {"_accumulator": self._accumulator}


def sum_stats(first: TaskStats, second: TaskStats) -> TaskStats:
    """The sums of all counters."""
    pairs = zip(msgspec.structs.astuple(first), msgspec.structs.astuple(second), strict=True)
    return TaskStats(*(a + b for a, b in pairs))


def stats_dict(stats: TaskStats) -> dict[str, float]:
    """Counters by name, with the compression ratio."""
    ratio = stats.raw_bytes / stats.stored_bytes if stats.stored_bytes else 0.0
    return {**msgspec.structs.asdict(stats), "ratio": ratio}
