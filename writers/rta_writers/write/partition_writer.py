"""Writing one partition without the data source, from the tasks of an older Spark."""

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from rta_wire import errors
from rta_writers.control import configs
from rta_writers.options import arguments, parse
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import column_types, frames, input_columns, task_unit
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult

ROWS_PER_BATCH: Final = 65_536
_END: Final = object()


def write_partition(rows: Iterable[Any], **options: Any) -> TaskResult:
    """Write the rows of one partition, from `foreachPartition` or `mapInArrow` on a Spark without the data source.

    `rows` are Arrow batches, Spark rows or dicts. The unit is named by the options `job` and `epoch` and by the
    partition of the task; in a streaming query Spark knows the first two. A time without a zone is local time, as
    Spark gives it.
    """
    settings = WriteOptions.parse(options)
    if settings.delivery is DeliveryGuarantee.STAGED:
        raise errors.Usage(reason="Delivery 'staged' needs a commit on the driver: a partition alone has none")
    unit = task_unit.partition_unit(settings)
    batches = _batches(_iterator(rows), settings)
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


def _iterator(rows: Any) -> Iterator[Any]:
    try:
        # Of these, Python would go through characters, names or columns.
        if not isinstance(rows, (str, bytes, Mapping, pa.RecordBatch, pa.Table)):
            return iter(rows)
    except TypeError:
        pass
    raise arguments.refuse("rows", rows, "several Arrow batches, Spark rows or dicts, one after the other")


def _batches(rows: Iterator[Any], options: WriteOptions) -> Iterator[pa.RecordBatch]:
    """Arrow batches as they are, or made from rows. The columns of the first batch are those of all."""
    first = next(rows, _END)
    if first is _END:
        return
    rows = itertools.chain([first], rows)
    if isinstance(first, pa.RecordBatch):
        yield from _same_columns(rows, first.schema)
        return
    columns = _record(first, 0).keys()
    schema: pa.Schema | None = None
    count = 0
    while records := [_record(row, count + index) for index, row in enumerate(itertools.islice(rows, ROWS_PER_BATCH))]:
        for index, record in enumerate(records, count):
            if unknown := record.keys() - columns:
                raise _bad_row(index, f"the column {parse.quote(min(unknown))} is not in the first row")
        try:
            batch = pa.RecordBatch.from_pylist(records, schema=schema)
        except input_columns.CONVERSION_ERRORS as error:
            last = count + len(records) - 1
            reason = f"rows {count} to {last} can't be made columns: {str(error)[: parse.QUOTED_MAX_CHARS]}"
            raise errors.BadSamples(reason=reason) from error
        if schema is None:
            schema = input_columns.complete(batch.schema, _types_without_values(options))
            batch = batch.cast(schema)
        count += len(records)
        yield batch


def _types_without_values(options: WriteOptions) -> dict[str, pa.DataType]:
    """Types of columns of rows that have no value in them, where they are not those of any numbers."""
    listed = configs.with_channels(options).channel_list
    integers = [channel for channel in listed.channels if channel.type.dtype.kind != "f"] if listed else []
    kinds = {channel.name: pa.from_numpy_dtype(channel.type.dtype) for channel in integers}
    return kinds | frames.TYPES_WITHOUT_VALUES


def _same_columns(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise errors.BadSamples(reason=f"there is {parse.quote(batch)} among Arrow batches")
        if not batch.schema.equals(schema):
            raise column_types.columns_error(schema, batch.schema)
        yield batch


def _record(row: Any, index: int) -> dict[str, Any]:
    """A row by names of columns, its times in UTC."""
    fields = row.asDict() if hasattr(row, "asDict") else row
    if not isinstance(fields, Mapping):
        raise _bad_row(index, f"it is {parse.quote(row)}, not a dict or a row of Spark")
    if not all(isinstance(name, str) for name in fields):
        raise _bad_row(index, "the name of a column is not text")
    try:
        return {name: _checked_value(value) for name, value in fields.items()}
    except (ValueError, TypeError, OverflowError) as error:
        raise _bad_row(index, str(error)) from error


def _checked_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    if isinstance(value, input_columns.CONTAINERS):
        input_columns.check_flat(value)
    return value


def _bad_row(index: int, reason: str) -> errors.BadSamples:
    return errors.BadSamples(reason=f"row {index}: {reason}", row=index)
