"""Rows for a task, and tasks that write them."""

from typing import Any

import numpy as np
import pyarrow as pa

from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult

START_NS = 1_700_000_000_000_000_000


def long(rows: int, *, first: int = 0, session: bool = False) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows)
    columns: dict[str, Any] = {"channel": numbers % 7, "time": START_NS + numbers, "value": numbers / 4}
    if session:
        columns["session"] = [f"car-{n % 3}" for n in numbers.tolist()]
    return pa.record_batch(columns)


def expected(rows: int, *, first: int = 0) -> list[tuple[int, int, float]]:
    return sorted((n % 7, START_NS + n, n / 4) for n in range(first, first + rows))


def write(
    target: Target, *batches: pa.RecordBatch, unit: str = "job/0", epoch: int = 0, **options: str
) -> tuple[WriteOptions, TaskResult]:
    settings = WriteOptions.parse({**target.options(), **options})
    return settings, run(settings, *batches, unit=unit, epoch=epoch)


def run(settings: WriteOptions, *batches: pa.RecordBatch, unit: str = "job/0", epoch: int = 0) -> TaskResult:
    task = Task(settings, batches[0].schema, unit=unit, epoch=epoch)
    try:
        for batch in batches:
            task.write(batch)
        return task.finish()
    finally:
        task.close()
