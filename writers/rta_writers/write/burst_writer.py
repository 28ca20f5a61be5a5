"""Writing without the data source: from any Python program, and from the tasks of an older Spark."""

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from rta_wire import errors
from rta_writers.control import session_resolver
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import commit, task_unit
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult

ROWS_PER_BATCH: Final = 65_536


class BurstWriter:
    """Appends rows to a session, in the forms and with the guarantees of the data source.

    Writing the same rows again under the same `unit` and `epoch` adds nothing: a program that was killed goes on by
    writing again from the start of its epoch. Without a name the unit is new each time.
    """

    def __init__(self, options: Mapping[str, str], *, unit: str | None = None, epoch: int = 0) -> None:
        self._options = WriteOptions.parse(options)
        self._unit = task_unit.program_unit(unit)
        self._epoch = task_unit.check_epoch(epoch)
        self._task: Task | None = None
        self._schema: pa.Schema | None = None
        self._options = session_resolver.check_open(self._options)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows with the columns of one of the forms. They may wait for more, a second at most while more come."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if self._task is None:
                self._task = Task(self._options, batch.schema, unit=self._unit, epoch=self._epoch)
                self._schema = batch.schema
            elif not batch.schema.equals(self._schema):
                raise errors.Usage(reason=f"The columns have changed from {self._schema} to {batch.schema}")
            self._task.write(batch)

    def samples(self, channels: Any, times_ns: Any, values: Any) -> None:
        """Write samples in long form from three sequences or arrays."""
        self.write(pa.record_batch({"channel": channels, "time": times_ns, "value": values}))

    def flush(self) -> None:
        """Wait until all rows are in the stream, and report them to the supervisor."""
        if self._task is not None:
            self._task.flush()

    def close(self) -> TaskResult:
        """Send the rest, commit it, and close the connection."""
        task, self._task = self._task, None
        if task is None:
            return TaskResult(self._unit, self._epoch)
        try:
            result = task.finish()
        finally:
            task.close()
        commit.commit(self._options, [result], epoch=self._epoch)
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._task is not None:
            self._task.abort()
            self._task.close()


def write_partition(rows: Iterable[Any], **options: str) -> TaskResult:
    """Write the rows of one partition, from `foreachPartition` or `mapInArrow` on a Spark without the data source.

    `rows` are Arrow batches, Spark rows or dicts. The unit is named by the options `job` and `epoch` and by the
    partition of the task; in a streaming query Spark knows the first two. A time without a zone is local time, as
    Spark gives it.
    """
    settings = WriteOptions.parse({name: str(value) for name, value in options.items()})
    if settings.delivery is DeliveryGuarantee.STAGED:
        raise errors.Usage(reason="Delivery 'staged' needs a commit on the driver: a partition alone has none")
    unit = task_unit.partition_unit(settings)
    batches = _batches(iter(rows))
    first = next(batches, None)
    if first is None:
        return TaskResult(unit.name, unit.epoch)
    task = Task(settings, first.schema, unit=unit.name, epoch=unit.epoch)
    try:
        for batch in itertools.chain([first], batches):
            task.write(batch)
        return task.finish()
    finally:
        task.close()


def _batches(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Arrow batches as they are, or made from rows. The columns of the first batch are those of all."""
    first = next(rows, None)
    if first is None:
        return
    rows = itertools.chain([first], rows)
    if isinstance(first, pa.RecordBatch):
        yield from rows
        return
    schema: pa.Schema | None = None
    while records := [_record(row) for row in itertools.islice(rows, ROWS_PER_BATCH)]:
        batch = pa.RecordBatch.from_pylist(records, schema=schema)
        schema = batch.schema
        yield batch


def _record(row: Any) -> dict[str, Any]:
    fields = row.asDict() if hasattr(row, "asDict") else dict(row)
    return {name: _in_utc(value) for name, value in fields.items()}


def _in_utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
