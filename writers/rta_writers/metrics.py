"""What writers did, counted by Spark: tasks add to an accumulator, the driver reads it. Attempts that failed are not in
it; what they wrote shows up as duplicates in the attempt that succeeded.
"""

from typing import Any

import msgspec
from pyspark.accumulators import AccumulatorParam

from rta_writers.task import Effort


class Sum(AccumulatorParam[tuple[int, ...]]):
    """Field by field."""

    def zero(self, value: tuple[int, ...]) -> tuple[int, ...]:
        return (0,) * len(value)

    def addInPlace(self, value1: tuple[int, ...], value2: tuple[int, ...]) -> tuple[int, ...]:  # noqa: N802 - Spark's name
        return tuple(map(sum, zip(value1, value2, strict=True)))


class Metrics:
    """Counters of all writes through one registration. It can be pickled into tasks."""

    def __init__(self, context: Any) -> None:
        self._sum = context.accumulator(msgspec.structs.astuple(Effort()), Sum())

    def add(self, effort: Effort) -> None:
        """In a task."""
        self._sum.add(msgspec.structs.astuple(effort))

    def effort(self) -> Effort:
        """On the driver: all tasks so far."""
        return Effort(*self._sum.value)

    def as_dict(self) -> dict[str, float]:
        """Names and numbers, with the compression ratio."""
        effort = self.effort()
        ratio = effort.raw_bytes / effort.stored_bytes if effort.stored_bytes else 0.0
        return {**msgspec.structs.asdict(effort), "ratio": ratio}
