"""What writers did, counted by Spark: tasks send notes through an accumulator, the driver adds them up and shows them.

Attempts that failed are not in it; what they wrote shows up as duplicates in the attempt that succeeded.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from pyspark.accumulators import AccumulatorParam

from rta_writers.write.result import TaskStats

EPOCHS_KEPT: Final = 100
"""As many as Spark keeps of a query's progress."""


class TaskMetrics(msgspec.Struct, frozen=True):
    """What one task did, and in which query of Spark's."""

    stats: TaskStats
    execution: int | None = None
    """Spark's number of the query execution, as its UI shows it."""

    query: str | None = None
    epoch: int = 0


class TaskMetricsParam(AccumulatorParam[tuple[TaskMetrics, ...]]):
    """Collects notes in a task, and hands them on when they reach the driver."""

    def __init__(self, take: Callable[[TaskMetrics], None] | None = None) -> None:
        self._take = take

    def zero(self, value: tuple[TaskMetrics, ...]) -> tuple[TaskMetrics, ...]:  # noqa: ARG002 - Spark's name
        return ()

    def addInPlace(self, value1: tuple[TaskMetrics, ...], value2: tuple[TaskMetrics, ...]) -> tuple[TaskMetrics, ...]:  # noqa: N802 - Spark's name
        if self._take is None:
            return value1 + value2
        for note in value2:
            self._take(note)
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        """What takes the notes stays on the driver."""
        return TaskMetricsParam, ()


class Metrics:
    """Counters of all writes through one registration. It can be pickled into tasks, where it can only be added to."""

    def __init__(self, context: Any, show: Callable[[int, TaskStats], None] | None = None) -> None:
        self._sum = TaskStats()
        self._show = show
        self._epochs: collections.OrderedDict[tuple[str, int], TaskStats] = collections.OrderedDict()
        self._notes = context.accumulator((), TaskMetricsParam(self._take))

    def add(self, note: TaskMetrics) -> None:
        """In a task."""
        self._notes.add((note,))

    def effort(self) -> TaskStats:
        """On the driver: all tasks so far."""
        return self._sum

    def as_dict(self) -> dict[str, float]:
        """Names and numbers, with the compression ratio."""
        return stats_dict(self._sum)

    def progress(self, query: Any) -> list[dict[str, Any]]:
        """The recent progress of a streaming query as Spark gives it, with our counters of each epoch as `rta`."""
        return [
            {**one, "rta": stats_dict(self._epochs.get((str(query.id), int(one["batchId"])), TaskStats()))}
            for one in query.recentProgress
        ]

    def _take(self, note: TaskMetrics) -> None:
        self._sum = sum_stats(self._sum, note.stats)
        if note.query is not None:
            epoch = note.query, note.epoch
            self._epochs[epoch] = sum_stats(self._epochs.get(epoch, TaskStats()), note.stats)
            if len(self._epochs) > EPOCHS_KEPT:
                self._epochs.popitem(last=False)
        if note.execution is not None and self._show is not None:
            self._show(note.execution, note.stats)

    def __getstate__(self) -> dict[str, Any]:
        return {"_notes": self._notes}


def sum_stats(one: TaskStats, other: TaskStats) -> TaskStats:
    sums: Sequence[int] = [
        a + b for a, b in zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    ]
    return TaskStats(*sums)


def stats_dict(effort: TaskStats) -> dict[str, float]:
    """Names and numbers, with the compression ratio."""
    ratio = effort.raw_bytes / effort.stored_bytes if effort.stored_bytes else 0.0
    return {**msgspec.structs.asdict(effort), "ratio": ratio}
