"""Columns of Arrow from what callers give: sequences, arrays of numpy, of Arrow and of others."""

import array
import contextlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rta_wire import errors
from rta_wire.codec import columns, layout
from rta_writers.options import parse

CONVERSION_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError)
"""What Arrow raises for values that can't be in one column."""

CONTAINERS: Final = (list, tuple, Set, Mapping, np.ndarray, pa.Array, pa.ChunkedArray)
NUMBERS: Final = {int, float, type(None)}
INTS: Final = {int, np.int64}
FLOATS: Final = {float, np.float64}
EXACT_INT_MAX: Final = 2**53
"""The largest integer of which a double has each one before it too."""

OBJECTS: Final = np.dtype(object)
_ARROW_TYPES: Final = {
    np.dtype(name): getattr(pa, name)()
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
}


def column(name: str, source: Any) -> pa.Array:
    """A column from a sequence or an array. What can't be one is an error that names the column."""
    try:
        if isinstance(source, np.ndarray) and source.dtype.kind != "O":
            return _from_numpy(source)
        if isinstance(source, (list, tuple)):
            kinds = set(map(type, source))
            numbers = _from_nullable(source, kinds) if type(None) in kinds else _from_numbers(source, kinds)
            if numbers is not None:
                return numbers
            if not kinds <= NUMBERS:
                check_flat(kinds)
        elif isinstance(source, pa.ChunkedArray):
            return source.combine_chunks()
        elif isinstance(source, (str, bytes, Set, Mapping)):
            raise TypeError("it is not a sequence or an array")
        elif getattr(source, "dtype", OBJECTS) == OBJECTS and not isinstance(source, pa.Array):
            source = list(source)
            check_flat(set(map(type, source)))
        return pa.array(source)
    except CONVERSION_ERRORS as error:
        reason = str(error)[: parse.QUOTED_MAX_CHARS]
        raise errors.BadSamples(
            reason=f"the {name} column {parse.quote(source)} can't be an array: {reason}"
        ) from error


def _from_numbers(source: Sequence[Any], kinds: Set[type]) -> pa.Array | None:
    """The array of some numbers, None where Arrow makes it: it has a wider type, or says which one is too large."""
    with contextlib.suppress(OverflowError):
        if kinds and kinds <= INTS:
            return from_buffer(pa.int64(), array.array("q", source))
        if kinds and are_doubles(source, kinds):
            return from_buffer(pa.float64(), array.array("d", source))
    if len(kinds) == 1 and issubclass(next(iter(kinds)), np.number):
        return _from_numpy(np.array(source))
    return None


def are_doubles(source: Sequence[Any], kinds: Set[type]) -> bool:
    """Whether numbers of these types are all doubles, or are integers so small that doubles have all of them."""
    return kinds <= FLOATS or (
        kinds <= FLOATS | INTS
        and all(-EXACT_INT_MAX <= number <= EXACT_INT_MAX for number in source if type(number) in INTS)
    )


def _from_nullable(source: Sequence[Any], kinds: Set[type]) -> pa.Array | None:
    """The same of numbers of Python with None among them, which is null."""
    if not kinds - {type(None)} <= FLOATS | INTS:
        return None
    if len(kinds) == 1:
        return pa.nulls(len(source))
    numbers = _from_numbers([0 if number is None else number for number in source], kinds - {type(None)})
    if numbers is None:
        return None
    return _with_nulls(numbers, [number is not None for number in source])


def _with_nulls(numbers: pa.Array, is_valid: Any) -> pa.Array:
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(numbers.type, len(numbers), [validity, numbers.buffers()[1]])


def _from_numpy(source: np.ndarray[Any, Any]) -> pa.Array:
    """A copy of an array: its owner may fill it with other values before the rows are sent."""
    kind = _ARROW_TYPES.get(source.dtype)
    # The type first: `np.ma` is imported when it is named, which takes 0.04 s.
    is_masked = type(source) is not np.ndarray and isinstance(source, np.ma.MaskedArray)
    if kind is None or source.ndim != 1 or is_masked:
        return pa.array(source.copy())
    return from_buffer(kind, source.tobytes())


def from_buffer(kind: pa.DataType, values: Any) -> pa.Array:
    """An array of values as they lie in memory. `pyarrow.array` imports pandas first, which takes 0.2 s."""
    buffer = pa.py_buffer(values)
    return pa.Array.from_buffers(kind, buffer.size * 8 // kind.bit_width, [None, buffer])


def complete(schema: pa.Schema, kinds: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of some rows, for more of them too. One that has no value yet is of the type in `kinds`, else it may
    have any numbers."""
    fields = [
        field.with_type(kinds.get(field.name, pa.float64())) if pa.types.is_null(field.type) else field
        for field in schema
    ]
    return pa.schema(fields)


def with_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Integers as such of 64 bits, numbers as doubles, and nulls as either; all else as it is.

    Nothing becomes another number: a double is no integer, since times as doubles have lost digits, and an integer that
    no double has is an error.
    """
    source = values.type
    if source == kind or kind not in (pa.int64(), pa.float64()):
        return values
    if pa.types.is_null(source):
        return pa.nulls(len(values), kind)
    is_integer = pa.types.is_integer(source)
    if kind == pa.int64():
        with contextlib.suppress(pa.ArrowInvalid):
            return values.cast(kind) if is_integer else values
    elif is_integer or pa.types.is_floating(source) or pa.types.is_decimal(source) or pa.types.is_boolean(source):
        return _as_doubles(values)
    return values


def _as_doubles(values: pa.Array) -> pa.Array:
    numbers, is_valid = columns.sample_column(values, "value", [layout.SampleType.DOUBLE])
    if is_valid is None:
        return from_buffer(pa.float64(), columns.cast_samples(numbers, layout.SampleType.DOUBLE).tobytes())
    rows = np.flatnonzero(is_valid)
    doubles = np.zeros(len(values))
    doubles[rows] = columns.cast_samples(numbers[rows], layout.SampleType.DOUBLE, rows)
    return _with_nulls(from_buffer(pa.float64(), doubles), is_valid)


def check_flat(kinds: Iterable[type]) -> None:
    """Raises ValueError where a value holds values itself: Arrow dies of lists that nest deeply or hold themselves."""
    if any(issubclass(kind, CONTAINERS) for kind in kinds):
        raise ValueError("a value in it holds values itself")
