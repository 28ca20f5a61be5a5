"""A fingerprint of rows, by which a retry that computes other rows is refused in most cases.

It is a sum over the columns. One number or time that differs changes it. Not found are values that are swapped between
rows of a column, differences that cancel out in the sum, and other texts, booleans, decimals or lists: of these only
the number of values that are not null counts.
"""

import functools
from typing import Final

import numpy as np
import pyarrow as pa

BITS: Final = 2**64 - 1
"""Fingerprints are sums of 64 bits: those of parts are added and masked with this."""

_UNSIGNED: Final = {
    kind.id: np.dtype(f"u{kind.bit_width // 8}")
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.timestamp("ns"), pa.duration("ns"), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")),
    )
}
"""The bits of numbers and times as integers, by Arrow's type id. Looked up here since frames may have many columns."""


def fingerprint(batch: pa.RecordBatch) -> int:
    """The sum of all columns, each with a factor of its own: the same for the same rows in any order."""
    columns = batch.columns
    return of_sums(*(_column_sum(columns[position]) for position in _positions_by_name(tuple(batch.schema.names))))


def of_sums(*sums: int) -> int:
    """The fingerprint of columns of which each has this sum, in the order of their names."""
    return sum((2 * index + 1) * column_sum for index, column_sum in enumerate(sums)) & BITS


@functools.lru_cache(maxsize=64)
def _positions_by_name(names: tuple[str, ...]) -> list[int]:
    """The positions of columns in the order of their names."""
    return sorted(range(len(names)), key=names.__getitem__)


def first_rows(batch: pa.RecordBatch, rows: int) -> int:
    """The fingerprint of the first rows of a batch."""
    return fingerprint(batch if rows == batch.num_rows else batch.slice(0, rows))


def _column_sum(array: pa.Array) -> int:
    dtype = _UNSIGNED.get(array.type.id)
    if dtype is None:
        return int(len(array) - array.null_count)
    if array.null_count:
        array = array.drop_null()
    if not len(array):
        return 0
    values = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
    return int(np.add.reduce(values, dtype=np.uint64))
