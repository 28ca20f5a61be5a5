"""Writing without the data source, from any Python program."""

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import msgspec
import pyarrow as pa

from rta_wire import errors
from rta_wire.codec import layout
from rta_writers.control import configs, session_resolver
from rta_writers.options import arguments
from rta_writers.options.write import WriteOptions
from rta_writers.write import column_types, commit, flush_timer, frames, input_columns, task_unit
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult
from rta_writers.write.ticks import Tick, TickEncoder

FLUSH_MS: Final = 100
"""How long rows of a program wait for others where no option says it."""

WIDE_INTEGERS: Final = frozenset({layout.SampleType.INT64, layout.SampleType.UINT64})
"""Types of which no double has each value."""


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
        self._ticks: TickEncoder | None = None
        """Set where the columns of `samples` are those of the task."""
        self._rows = 0
        self._pid = os.getpid()
        self._lock = threading.RLock()
        """Held while the task is made, and while it is closed: only one of several threads may do that."""
        self._options = session_resolver.check_open(self._options)

    def __repr__(self) -> str:
        session = "sessions of the rows" if self._options.session is None else repr(self._options.session)
        state = "failed" if self._failure is not None else "open" if self._result is None else "closed"
        return (
            f"BurstWriter({session}, stream={self._options.stream!r}, unit={self._unit!r}, epoch={self._epoch}, "
            f"{self._rows} rows, {state})"
        )

    def __reduce__(self) -> NoReturn:
        raise errors.Usage(
            reason="A BurstWriter stays in the process that made it: make one in each task from the session's options"
        )

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows with the columns of one of the forms. They may wait for more, `flushMs` at most.

        They are all checked before the first is taken: where one is refused, none of them is written.
        """
        self._check_usable()
        if not isinstance(rows, (pa.RecordBatch, pa.Table)):
            raise arguments.refuse("rows", rows, "a record batch or a table of pyarrow")
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        self._take(self._task_for(rows.schema, batches), batches)

    def _task_for(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Task:
        """The task that takes these rows. They are checked: where one is refused, nothing remains of the call."""
        if self._task is None:
            with self._lock:
                if self._task is None:
                    return self._begin(schema, batches)
        if not schema.equals(self._schema):
            raise column_types.columns_error(self._schema, schema)
        for batch in batches:
            self._task.check(batch)
        return self._task

    def _begin(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Task:
        task = Task(self._options, schema, unit=self._unit, epoch=self._epoch)
        try:
            for batch in batches:
                task.check(batch)
        except BaseException:
            task.close()
            raise
        self._schema = schema
        self._task = task
        return task

    def _take(self, task: Task, batches: Sequence[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                task.write(batch)
                self._rows += batch.num_rows
        except BaseException as error:
            self._abort(error)
            raise

    def _take_tick(self, task: Task, tick: Tick) -> None:
        try:
            task.write_tick(tick)
        except BaseException as error:
            self._abort(error)
            raise
        self._rows += tick.num_rows

    def samples(self, channels: Any, times_ns: Any, values: Any) -> None:
        """Write samples in long form from three sequences or arrays of one length.

        Numbers may come as other types from call to call. A null value is no sample.
        """
        self._check_usable()
        tick = None if self._ticks is None else self._ticks.take(channels, times_ns, values)
        if self._task is not None and tick is not None:
            self._take_tick(self._task, tick)
            return
        columns = [
            input_columns.column("channel", channels),
            input_columns.column("time", times_ns),
            input_columns.column("value", values),
        ]
        lengths = [len(column) for column in columns]
        if not lengths[0] == lengths[1] == lengths[2]:
            raise errors.BadSamples(reason="{} channels, {} times and {} values differ".format(*lengths))
        if not lengths[0]:
            return
        kinds = self._sample_types(columns)
        columns = [input_columns.with_type(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        batch = pa.record_batch(columns, frames.LONG_COLUMNS)
        task = self._task_for(batch.schema, [batch])
        self._take(task, [batch])
        self._ticks = task.ticks

    def _sample_types(self, columns: Sequence[pa.Array]) -> Sequence[pa.DataType]:
        """The types that columns of samples should have: those of the rows before them, else one of 64 bits each."""
        types: Sequence[pa.DataType] = [column.type for column in columns]
        if self._schema is not None:
            return self._schema.types if self._schema.names == list(frames.LONG_COLUMNS) else types
        layouts = configs.with_channels(self._options).layout_plan().layouts
        is_wide = any(used.type in WIDE_INTEGERS for used in layouts)
        return [pa.int64(), pa.int64(), types[-1] if is_wide else pa.float64()]

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
        if self._result is None:
            flush_timer.check_process(self._unit, self._pid)
            with self._lock:
                if self._result is None:
                    self._result = self._finish()
        return self._result

    def _finish(self) -> TaskResult:
        self._check_usable()
        if self._task is None:
            return TaskResult(self._unit, self._epoch)
        try:
            result = self._task.finish()
            self._task.close()
            commit.commit(self._options, [result], epoch=self._epoch)
        except BaseException as error:
            self._abort(error)
            raise
        return result

    def _check_usable(self) -> None:
        flush_timer.check_process(self._unit, self._pid)
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
            raise flush_timer.closed_error(self._unit)

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
