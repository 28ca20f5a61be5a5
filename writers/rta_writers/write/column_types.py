"""Types of columns that a frame may have: which Arrow types each of them takes, and what it is called in errors."""

from collections.abc import Callable
from typing import Final, NamedTuple

import pyarrow as pa

from rta_wire import errors


class ColumnType(NamedTuple):
    """What a column holds."""

    matches: Callable[[pa.DataType], bool]
    description: str


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _is_list_of(item: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    def matches(kind: pa.DataType) -> bool:
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and item(kind.value_type)

    return matches


TIME: Final = ColumnType(_is_time, "a timestamp or a bigint of nanoseconds")
INTEGER: Final = ColumnType(pa.types.is_integer, "an integer")
NUMBER: Final = ColumnType(_is_number, "a number")
TEXT: Final = ColumnType(_is_text, "a string")
NAME_PART: Final = ColumnType(lambda kind: _is_text(kind) or bool(pa.types.is_integer(kind)), "a string or an integer")
INTEGERS: Final = ColumnType(_is_list_of(pa.types.is_integer), "an array of integers")
NUMBERS: Final = ColumnType(_is_list_of(_is_number), "an array of numbers")


def columns_error(before: pa.Schema, schema: pa.Schema) -> errors.Usage:
    """The error for rows whose columns are not those of the rows before them."""
    texts = [", ".join(f"{field.name} {field.type}" for field in columns) for columns in (before, schema)]
    return errors.Usage(reason="The columns have changed from ({}) to ({})".format(*texts))
