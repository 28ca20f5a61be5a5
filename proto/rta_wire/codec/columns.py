"""For the encoder: batches of rows cut to size, and their columns, of Arrow or numpy, to numpy arrays of exact types.

No value is rounded, wrapped or dropped: one that does not fit is an error that names its row. Rounded are only a double
for a channel of floats, and a decimal for one of floats or doubles.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Bools
from rta_wire.codec import decimals, layout

_NS_PER_UNIT: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NUMBERS: Final = "fiub"
_NAT: Final = np.iinfo(np.int64).min


class RowBatcher:
    """Takes batches as they come and gives full ones. How rows arrive makes no difference to them and their order."""

    def __init__(self, max_rows: int, max_bytes: int | None = None) -> None:
        """A batch is full with `max_rows` rows, or with fewer where those take between half of `max_bytes` and all."""
        self.waiting_rows = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take more rows. Gives the batches that are full now."""
        most = self._max_rows
        if self._max_bytes is not None:
            most = min(most, max(1, self._max_bytes * batch.num_rows // max(1, batch.nbytes)))
            if most < self._max_rows and not self.waiting_rows and most <= 2 * batch.num_rows <= 2 * most:
                # Joining wide batches to full ones costs more than batches that are not full.
                yield batch
                return
        first = 0
        if batch.num_rows < most - self.waiting_rows:
            self._keep(batch)
            return
        while batch.num_rows - first >= most - self.waiting_rows:
            taken = max(0, most - self.waiting_rows)
            self._keep(batch.slice(first, taken))
            first += taken
            yield from self.drain()
        self._keep(batch.slice(first))

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Gives the rows that wait, where there are any."""
        batches, self._waiting, self.waiting_rows = self._waiting, [], 0
        if len(batches) > 1:
            batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
        yield from batches

    def _keep(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self.waiting_rows += batch.num_rows


def rebatch(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `max_rows`, the last one shorter. Rows are copied only where batches meet."""
    batcher = RowBatcher(max_rows)
    for batch in batches:
        yield from batcher.add(batch)
    yield from batcher.drain()


class Column(NamedTuple):
    """Values, and which of them are not null; `valid` is None where none is null."""

    values: Array
    valid: Bools | None = None


def column(source: Any, what: str) -> Column:
    """A column from a numpy array, an Arrow array or a chunked one, without copying where its memory layout allows.

    `what` names the column in errors.
    """
    if isinstance(source, pa.ChunkedArray):
        source = source.combine_chunks()
    if not isinstance(source, pa.Array):
        # The type first: `np.ma` is imported when it is named, which takes 0.04 s.
        if type(source) is not np.ndarray and isinstance(source, np.ma.MaskedArray):
            return Column(np.ascontiguousarray(source.data), ~np.ma.getmaskarray(source))
        return Column(np.ascontiguousarray(source))
    arrow_type = source.type
    dtype = _NUMPY_TYPES.get(arrow_type.id)
    if dtype is None and pa.types.is_timestamp(arrow_type):
        dtype = np.dtype(f"M8[{arrow_type.unit}]")
    if dtype is None:
        return _rare_column(source, what)
    valid = _validity(source)
    # Read from the buffer: Arrow's own conversion turns integers with nulls into doubles.
    buffer = source.buffers()[1]
    if buffer is None:
        return Column(np.zeros(len(source), dtype), valid)
    return Column(np.frombuffer(buffer, dtype, len(source), source.offset * dtype.itemsize), valid)


def _validity(source: pa.Array) -> Bools | None:
    """Which values are not null, None where none is. From the bits: Arrow's own conversion imports pandas first."""
    if not source.null_count:
        return None
    byte, bit = divmod(source.offset, 8)
    end = bit + len(source)
    bits = np.frombuffer(source.buffers()[0], np.uint8, (end + 7) // 8, byte)
    return np.unpackbits(bits, count=end, bitorder="little")[bit:].view(np.bool_)


def sample_column(source: Any, what: str, types: Iterable[layout.SampleType]) -> Column:
    """A column whose values become samples of some of these types."""
    if (
        isinstance(source, pa.Array)
        and pa.types.is_decimal(source.type)
        and not any(kind.dtype.kind in "iu" for kind in types)
    ):
        valid = _validity(source)
        return Column(decimals.nearest_doubles(source), valid)
    return column(source, what)


_NUMPY_TYPES: Final[dict[int, np.dtype[Any]]] = {
    getattr(pa, name)().id: np.dtype(name)
    for name in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
}


def _rare_column(source: pa.Array, what: str) -> Column:
    """A column of an Arrow type whose memory layout is not an array of numbers."""
    if pa.types.is_dictionary(source.type):
        return column(source.dictionary_decode(), what)
    if pa.types.is_null(source.type):
        return Column(np.zeros(len(source)), np.zeros(len(source), np.bool_))
    if pa.types.is_boolean(source.type):
        valid = _validity(source)
        return Column(source.fill_null(False).to_numpy(zero_copy_only=False), valid)
    if pa.types.is_decimal(source.type):
        valid = _validity(source)
        return Column(decimals.records(source), valid)
    raise errors.BadSamples(reason=f"the {what} column is {source.type}, which is no number or time")


def get_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column of a name, which exactly one column must have."""
    try:
        return batch.column(name)
    except KeyError as error:
        raise errors.BadSamples(reason=f"there is no single column {name!r} among {batch.schema.names}") from error


def get_columns(batch: pa.RecordBatch, names: Iterable[str]) -> list[pa.Array]:
    """The columns of these names, each of which exactly one column must have. Faster than one by one."""
    arrays = batch.columns
    indices = {name: index for index, name in enumerate(batch.schema.names)}
    if len(indices) < len(arrays):
        return [get_column(batch, name) for name in names]
    return [arrays[indices[name]] if name in indices else get_column(batch, name) for name in names]


def times_ns(source: Any, first_row: int = 0) -> I64:
    """Nanoseconds since the Unix epoch from integers (taken as such) or timestamps of any unit."""
    values, valid = column(source, "time")
    if valid is not None:
        _refuse(~valid, first_row, "the time is null")
    if values.dtype.kind in "iu":
        return cast_integers(values, np.dtype(np.int64), first_row, "time")
    if values.dtype.kind != "M":
        raise errors.BadSamples(
            reason=f"the time column is {values.dtype}, not a timestamp or an integer of nanoseconds"
        )
    unit, count = np.datetime_data(values.dtype)
    if unit not in _NS_PER_UNIT:
        raise errors.BadSamples(reason=f"the time column counts in {unit}, not in s, ms, us or ns")
    ticks = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.int64)
    if not isinstance(source, (pa.Array, pa.ChunkedArray)):
        # In numpy the lowest number means null; in Arrow it is a time like any other.
        _refuse(ticks == _NAT, first_row, "the time is null")
    factor = _NS_PER_UNIT[unit] * count
    if factor == 1:
        return ticks
    max_ticks = limits.TIME_NS_MAX // factor
    _refuse(
        (ticks > max_ticks) | (ticks < -max_ticks),
        first_row,
        f"the time, in {unit}, does not fit 64 bits of nanoseconds",
    )
    return ticks * factor


def channels(source: Any, first_row: int = 0) -> U32:
    """Channel ids from integers of any width."""
    values, valid = column(source, "channel")
    if valid is not None:
        _refuse(~valid, first_row, "the channel is null")
    if values.dtype.kind not in "iu":
        raise errors.BadSamples(reason=f"the channel column is {values.dtype}, not an integer")
    return cast_integers(values, np.dtype(np.uint32), first_row, "channel")


def cast_integers(values: Array, dtype: np.dtype[Any], first_row: int, what: str) -> Array:
    """Integers of another width. One that does not fit is an error."""
    if values.dtype == dtype:
        return values
    bounds = np.iinfo(dtype)
    if len(values) and not (bounds.min <= int(values.min()) and int(values.max()) <= bounds.max):
        is_outside = np.array([not bounds.min <= value <= bounds.max for value in values.tolist()])
        raise _bad(is_outside, first_row, f"the {what} does not fit {dtype}", values)
    return values.astype(dtype)


def cast_samples(values: Array, kind: layout.SampleType, rows: I64 | None = None, first_row: int = 0) -> Array:
    """Values as samples of a type. `rows` has the row of each value where they are not in order, for errors."""
    dtype = kind.dtype
    if values.dtype == dtype:
        return values
    if decimals.is_decimal(values.dtype):
        if dtype.kind == "f":
            return cast_samples(decimals.doubles(values), kind, rows, first_row)
        samples, changed = decimals.integers(values, dtype)
    elif values.dtype.kind not in _NUMBERS:
        raise errors.BadSamples(reason=f"the value column is {values.dtype}, which is no number")
    else:
        values = values.view(np.uint8) if values.dtype.kind == "b" else values
        with np.errstate(invalid="ignore", over="ignore"):
            samples = values.astype(dtype)
            changed = _changed(values, samples)
    if changed.any():
        if rows is not None:
            index = int(np.flatnonzero(changed)[np.argmin(rows[changed])])
            row = int(rows[index])
        else:
            index = row = int(np.argmax(changed))
        value = values[index]
        shown = decimals.quote(value) if decimals.is_decimal(values.dtype) else repr(value.item())
        _raise(row + first_row, f"{shown} can't be a sample of type {kind.value}")
    return samples


def _changed(values: Array, samples: Array) -> Bools:
    """Which values were changed by the cast to samples, rounding to floats aside."""
    source, target = values.dtype, samples.dtype
    changed: Bools
    if target.kind == "f" and source.kind == "f":
        changed = np.isinf(samples) & ~np.isinf(values)
    elif target.kind == "f":
        # A uint64 near 2^64 rounds up to 2^64 itself, and the result of a cast out of range depends on the processor.
        changed = (samples >= float(np.iinfo(source).max) + 1.0) | (samples.astype(source) != values)
    elif source.kind == "f":
        lowest, highest = float(np.iinfo(target).min), float(np.iinfo(target).max)
        # The highest integer of 64 bits is no double; the double above it overflows on some processors only.
        over = values >= highest if highest > np.iinfo(target).max else values > highest
        changed = ~(values >= lowest) | over | (samples.astype(source) != values)
    else:
        changed = (samples.astype(source) != values) | ((values < 0) != (samples < 0))
    return changed


def _refuse(is_bad: Bools, first_row: int, reason: str) -> None:
    """Raises an error for the first bad row, if there is one."""
    if is_bad.any():
        raise _bad(is_bad, first_row, reason)


def _bad(is_bad: Bools, first_row: int, reason: str, values: Array | None = None) -> errors.BadSamples:
    index = int(np.argmax(is_bad))
    value = "" if values is None else f": {values[index].item()}"
    return errors.BadSamples(reason=f"row {index + first_row}: {reason}{value}", row=index + first_row)


def _raise(row: int, reason: str) -> None:
    raise errors.BadSamples(reason=f"row {row}: {reason}", row=row)
