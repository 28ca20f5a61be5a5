"""Writing without the data source: from any Python program, and from the tasks of an older Spark."""

import array
import contextlib
import datetime as dt
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import numpy as np
import pyarrow as pa

from rta_wire import errors
from rta_writers.control import session_resolver
from rta_writers.options import arguments, parse
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import commit, frames, task_unit
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult

FLUSH_MS: Final = 100
"""How long rows of a program wait for others where no option says it."""

ROWS_PER_BATCH: Final = 65_536
CONVERSION_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError)
"""What Arrow raises for values that can't be in one column."""

CONTAINERS: Final = (list, tuple, Set, Mapping, np.ndarray, pa.Array, pa.ChunkedArray)
NUMBERS: Final = {int, float, type(None)}
INTS: Final = {int}
FLOATS: Final = {float}
OBJECTS: Final = np.dtype(object)
_ARROW_TYPES: Final = {
    np.dtype(name): getattr(pa, name)()
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
}


class BurstWriter:
    """Appends rows to a session, in the forms and with the guarantees of the data source.

    Writing the same rows again under the same `unit` and `epoch` adds nothing: a program that was killed goes on by
    writing again from the start of its epoch. Without a name the unit is new each time.

    Rows wait for others for `flushMs` at most, then a timer sends them. What it fails with is raised by the next call.
    """

    def __init__(self, options: Mapping[str, str], *, unit: str | None = None, epoch: int = 0) -> None:
        self._task: Task | None = None
        self._result: TaskResult | None = None
        self._failure: BaseException | None = None
        parsed = WriteOptions.parse(options)
        self._options = msgspec.structs.replace(parsed, flush_ms=parsed.flush_ms or FLUSH_MS)
        self._unit = task_unit.program_unit(unit)
        self._epoch = task_unit.check_epoch(epoch)
        self._schema: pa.Schema | None = None
        self._rows = 0
        self._options = session_resolver.check_open(self._options)

    def __repr__(self) -> str:
        session = "sessions of the rows" if self._options.session is None else repr(self._options.session)
        state = "failed" if self._failure is not None else "open" if self._result is None else "closed"
        return (
            f"BurstWriter({session}, stream={self._options.stream!r}, unit={self._unit!r}, epoch={self._epoch}, "
            f"{self._rows} rows, {state})"
        )

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows with the columns of one of the forms. They may wait for more, `flushMs` at most.

        They are all checked before the first is taken: where one is refused, none of them is written.
        """
        self._check_usable()
        if not isinstance(rows, (pa.RecordBatch, pa.Table)):
            raise arguments.refuse("rows", rows, "a record batch or a table of pyarrow")
        task = self._task_for(rows.schema)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            task.check(batch)
        self._take(task, batches)

    def _task_for(self, schema: pa.Schema) -> Task:
        """The task that takes rows with these columns."""
        if self._task is None:
            self._task = Task(self._options, schema, unit=self._unit, epoch=self._epoch)
            self._schema = schema
        elif not schema.equals(self._schema):
            raise errors.Usage(reason=f"The columns have changed from {self._schema} to {schema}")
        return self._task

    def _take(self, task: Task, batches: Sequence[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                task.write(batch)
                self._rows += batch.num_rows
        except BaseException as error:
            self._abort(error)
            raise

    def samples(self, channels: Any, times_ns: Any, values: Any) -> None:
        """Write samples in long form from three sequences or arrays of one length."""
        self._check_usable()
        columns = [_column("channel", channels), _column("time", times_ns), _column("value", values)]
        lengths = [len(column) for column in columns]
        if not lengths[0] == lengths[1] == lengths[2]:
            raise errors.BadSamples(reason="{} channels, {} times and {} values differ".format(*lengths))
        if not lengths[0]:
            return
        batch = pa.record_batch(columns, frames.LONG_COLUMNS)
        task = self._task_for(batch.schema)
        if not task.are_plain(*columns[:2]):
            task.check(batch)
        self._take(task, [batch])

    def flush(self) -> None:
        """Wait until all rows are in the stream. The supervisor is told of them within 50 ms."""
        self._check_usable()
        if self._task is not None:
            try:
                self._task.flush()
            except BaseException as error:
                self._abort(error)
                raise

    def close(self) -> TaskResult:
        """Send the rest, commit it, and close the connection. Calling it again returns the same result."""
        if self._result is not None:
            return self._result
        self._check_usable()
        result = TaskResult(self._unit, self._epoch)
        if self._task is not None:
            try:
                result = self._task.finish()
                self._task.close()
                commit.commit(self._options, [result], epoch=self._epoch)
            except BaseException as error:
                self._abort(error)
                raise
        self._result = result
        return result

    def _check_usable(self) -> None:
        if self._failure is None and self._task is not None and self._task.error is not None:
            error = self._task.error
            self._abort(error)
            raise error
        if self._failure is not None:
            raise errors.Usage(
                reason=f"The writer of unit {self._unit!r} has failed, and rows that it was given may be missing: "
                f"{self._failure}. Make another one, and write the epoch again from its start"
            ) from self._failure
        if self._result is not None:
            raise errors.Usage(reason=f"The writer of unit {self._unit!r} is closed. Make another one for more rows")

    def _abort(self, error: BaseException | None) -> None:
        """Take no more rows: after an error nobody knows which of them were lost with it."""
        self._failure = error
        if self._task is not None and not self._task.is_in_child:
            self._task.abort()
            self._task.close()

    def __del__(self) -> None:
        # What waits is sent all the same, by the timer. Whether it arrives, nobody is told.
        if self._task is None or self._result is not None or self._failure is not None or self._task.is_in_child:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._failure is None and self._result is None:
            self._abort(error)


def _column(name: str, source: Any) -> pa.Array:
    """A column from a sequence or an array. What can't be one is an error that names the column."""
    try:
        if isinstance(source, np.ndarray) and source.dtype.kind != "O":
            return _from_numpy(source)
        if isinstance(source, (list, tuple)):
            kinds = set(map(type, source))
            if kinds == FLOATS:
                return _from_buffer(pa.float64(), array.array("d", source))
            if kinds == INTS:
                with contextlib.suppress(OverflowError):  # Arrow has a wider type, or says which one is too large
                    return _from_buffer(pa.int64(), array.array("q", source))
            if not kinds <= NUMBERS:
                _check_flat(kinds)
        elif isinstance(source, pa.ChunkedArray):
            return source.combine_chunks()
        elif isinstance(source, (str, bytes, Set, Mapping)):
            raise TypeError("it is not a sequence or an array")
        elif getattr(source, "dtype", OBJECTS) == OBJECTS and not isinstance(source, pa.Array):
            source = list(source)
            _check_flat(set(map(type, source)))
        return pa.array(source)
    except CONVERSION_ERRORS as error:
        reason = str(error)[: parse.QUOTED_MAX_CHARS]
        raise errors.BadSamples(
            reason=f"the {name} column {parse.quote(source)} can't be an array: {reason}"
        ) from error


def _from_numpy(source: np.ndarray[Any, Any]) -> pa.Array:
    """A copy of an array: its owner may fill it with other values before the rows are sent."""
    kind = _ARROW_TYPES.get(source.dtype)
    if kind is None or source.ndim != 1 or isinstance(source, np.ma.MaskedArray):
        return pa.array(source.copy())
    return _from_buffer(kind, source.tobytes())


def _from_buffer(kind: pa.DataType, values: Any) -> pa.Array:
    """An array of values as they lie in memory. `pyarrow.array` imports pandas first, which takes 0.2 s."""
    buffer = pa.py_buffer(values)
    return pa.Array.from_buffers(kind, buffer.size * 8 // kind.bit_width, [None, buffer])


def _check_flat(kinds: Iterable[type]) -> None:
    """Raises ValueError where a value holds values itself: Arrow dies of lists that nest deeply or hold themselves."""
    if any(issubclass(kind, CONTAINERS) for kind in kinds):
        raise ValueError("a value in it holds values itself")


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
    batches = _batches(_iterator(rows))
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


def _batches(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Arrow batches as they are, or made from rows. The columns of the first batch are those of all."""
    first = next(rows, None)
    if first is None:
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
        except CONVERSION_ERRORS as error:
            last = count + len(records) - 1
            reason = f"rows {count} to {last} can't be made columns: {str(error)[: parse.QUOTED_MAX_CHARS]}"
            raise errors.BadSamples(reason=reason) from error
        schema = batch.schema
        count += len(records)
        yield batch


def _same_columns(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise errors.BadSamples(reason=f"there is {parse.quote(batch)} among Arrow batches")
        if not batch.schema.equals(schema):
            raise errors.Usage(reason=f"The columns have changed from {schema} to {batch.schema}")
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
    if isinstance(value, CONTAINERS):
        _check_flat(value)
    return value


def _bad_row(index: int, reason: str) -> errors.BadSamples:
    return errors.BadSamples(reason=f"row {index}: {reason}", row=index)
