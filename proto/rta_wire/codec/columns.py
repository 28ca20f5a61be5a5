"""Arrow and numpy columns to exact numpy ones. Nothing is rounded, wrapped or dropped on the way: what does not fit is
an error that names its row. The one exception is asked for: a double in a channel of floats is rounded to the nearest.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Bools
from rta_wire.codec import layout

_NS_PER_UNIT: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NUMBERS: Final = "fiub"
_NAT: Final = np.iinfo(np.int64).min


class Column(NamedTuple):
    """Plain values, and which of them are there; None where all are."""

    values: Array
    valid: Bools | None = None


def column(source: Any, what: str) -> Column:
    """Takes a numpy array, an Arrow array or a chunked one; without copying where the layout allows."""
    if isinstance(source, pa.ChunkedArray):
        source = source.combine_chunks()
    if isinstance(source, np.ma.MaskedArray):
        return Column(np.ascontiguousarray(source.data), ~np.ma.getmaskarray(source))
    if not isinstance(source, pa.Array):
        return Column(np.ascontiguousarray(source))
    kind = source.type
    dtype = _NUMPY.get(kind.id)
    if dtype is None and pa.types.is_timestamp(kind):
        dtype = np.dtype(f"M8[{kind.unit}]")
    if dtype is None:
        return _rare_column(source, what)
    valid = source.is_valid().to_numpy(zero_copy_only=False) if source.null_count else None
    # The buffer itself: Arrow's own conversion turns integers with nulls into doubles.
    buffer = source.buffers()[1]
    if buffer is None:
        return Column(np.zeros(len(source), dtype), valid)
    return Column(np.frombuffer(buffer, dtype, len(source), source.offset * dtype.itemsize), valid)


_NUMPY: Final[dict[int, np.dtype[Any]]] = {
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
    """Layouts of Arrow that are not simply numbers side by side."""
    if pa.types.is_dictionary(source.type):
        return column(source.dictionary_decode(), what)
    if pa.types.is_null(source.type):
        return Column(np.zeros(len(source)), np.zeros(len(source), np.bool_))
    if pa.types.is_boolean(source.type):
        valid = source.is_valid().to_numpy(zero_copy_only=False) if source.null_count else None
        return Column(source.fill_null(False).to_numpy(zero_copy_only=False), valid)
    raise errors.BadSamples(reason=f"the {what} column is {source.type}, which is no number or time")


def get_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column, which must be there once."""
    try:
        return batch.column(name)
    except KeyError as error:
        raise errors.BadSamples(reason=f"there is no single column {name!r} among {batch.schema.names}") from error


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
        # Numpy says null with the lowest number; in Arrow that number is a time like any other.
        _refuse(ticks == _NAT, first_row, "the time is null")
    factor = _NS_PER_UNIT[unit] * count
    if factor == 1:
        return ticks
    most = limits.TIME_NS_MAX // factor
    _refuse(
        (ticks > most) | (ticks < -most),
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
    """Integers in another width, or an error where one does not fit."""
    if values.dtype == dtype:
        return values
    bounds = np.iinfo(dtype)
    if len(values) and not (bounds.min <= int(values.min()) and int(values.max()) <= bounds.max):
        wrong = np.array([not bounds.min <= value <= bounds.max for value in values.tolist()])
        raise _bad(wrong, first_row, f"the {what} does not fit {dtype}", values)
    return values.astype(dtype)


def cast_samples(values: Array, kind: layout.SampleType, rows: I64 | None = None, first_row: int = 0) -> Array:
    """Values as the samples of a channel; `rows` says where each came from."""
    dtype = kind.dtype
    if values.dtype == dtype:
        return values
    if values.dtype.kind not in _NUMBERS:
        raise errors.BadSamples(reason=f"the value column is {values.dtype}, which is no number")
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        made = values.astype(dtype)
        wrong = _changed(values, made)
    if wrong.any():
        if rows is not None:
            spot = int(np.flatnonzero(wrong)[np.argmin(rows[wrong])])
            row = int(rows[spot])
        else:
            spot = row = int(np.argmax(wrong))
        _raise(row + first_row, f"{values[spot].item()!r} can't be a sample of type {kind.value}")
    return made


def _changed(values: Array, made: Array) -> Bools:
    source, target = values.dtype, made.dtype
    changed: Bools
    if target.kind == "f" and source.kind == "f":
        changed = np.isinf(made) & ~np.isinf(values)
    elif target.kind == "f":
        # A uint64 near 2^64 rounds up to 2^64 itself, and what casts give out of range differs between processors.
        changed = (made >= float(np.iinfo(source).max) + 1.0) | (made.astype(source) != values)
    elif source.kind == "f":
        low, high = float(np.iinfo(target).min), float(np.iinfo(target).max)
        # The top of 64 bits is no double: the one above it is, and is too large on some processors only.
        over = values >= high if high > np.iinfo(target).max else values > high
        changed = ~(values >= low) | over | (made.astype(source) != values)
    else:
        changed = (made.astype(source) != values) | ((values < 0) != (made < 0))
    return changed


def _refuse(wrong: Bools, first_row: int, why: str) -> None:
    if wrong.any():
        raise _bad(wrong, first_row, why)


def _bad(wrong: Bools, first_row: int, why: str, values: Array | None = None) -> errors.BadSamples:
    spot = int(np.argmax(wrong))
    found = "" if values is None else f": {values[spot].item()}"
    return errors.BadSamples(reason=f"row {spot + first_row}: {why}{found}", row=spot + first_row)


def _raise(row: int, why: str) -> None:
    raise errors.BadSamples(reason=f"row {row}: {why}", row=row)
