"""A fingerprint of rows: tells a retry that computes other rows from one that repeats them."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from rta_wire.codec import columns


def fingerprint(batch: pa.RecordBatch) -> int:
    """A number that rows add up to: the same for the same rows in any order, and almost never for others."""
    total = 0
    for place, name in enumerate(sorted(batch.schema.names)):
        total += (2 * place + 1) * _sum(columns.get_column(batch, name))
    return total & _ALL_BITS


_ALL_BITS: Final = 2**64 - 1


_VIEWS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _sum(array: pa.Array) -> int:
    kind: Any = array.type
    if pa.types.is_boolean(kind) or not pa.types.is_primitive(kind):
        return int(len(array) - array.null_count)
    if array.null_count:
        array = array.drop_null()
    values = np.frombuffer(array.buffers()[1] or b"", _VIEWS[kind.bit_width // 8], offset=0)
    return int(values[array.offset : array.offset + len(array)].sum(dtype=np.uint64))


def group_fingerprint(group: pa.RecordBatch, rows: int) -> int:
    return fingerprint(group.slice(0, rows))
