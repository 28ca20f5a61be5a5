"""A fingerprint of rows, by which a retry that computes other rows is refused in most cases.

It is a sum over the columns. One number or time that differs changes it. Not found are values that are swapped between
rows of a column, differences that cancel out in the sum, and other texts, booleans, decimals or lists: of these only
the number of values that are not null counts.
"""

import operator
from typing import Any, Final

import numpy as np
import pyarrow as pa

BITS: Final = 2**64 - 1
"""Fingerprints are sums of 64 bits: those of parts are added and masked with this."""

_UNSIGNED_BY_BYTES: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def fingerprint(batch: pa.RecordBatch) -> int:
    """The sum of all columns, each with a factor of its own: the same for the same rows in any order."""
    total = 0
    by_name = sorted(zip(batch.schema.names, batch.columns, strict=True), key=operator.itemgetter(0))
    for index, (_, column) in enumerate(by_name):
        total += (2 * index + 1) * _column_sum(column)
    return total & BITS


def first_rows(batch: pa.RecordBatch, rows: int) -> int:
    """The fingerprint of the first rows of a batch."""
    return fingerprint(batch.slice(0, rows))


def _column_sum(array: pa.Array) -> int:
    kind: Any = array.type
    if pa.types.is_boolean(kind) or not pa.types.is_primitive(kind):
        return int(len(array) - array.null_count)
    if array.null_count:
        array = array.drop_null()
    values = np.frombuffer(array.buffers()[1] or b"", _UNSIGNED_BY_BYTES[kind.bit_width // 8], offset=0)
    return int(values[array.offset : array.offset + len(array)].sum(dtype=np.uint64))
