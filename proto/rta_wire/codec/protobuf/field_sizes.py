"""For the encoder: sizes of fields in bytes, of those whose tag is one byte, tag included, many at once with numpy.

Fields that are zero or empty take none, as protobuf leaves them out.
"""

from collections.abc import Sequence

import numpy as np

from rta_wire.arrays import I64, Array
from rta_wire.codec.protobuf import varint


def varints(values: Sequence[int] | Array) -> I64:
    """Sizes of varint fields."""
    numbers = np.array(values, np.int64)
    return _unless_zero(numbers, 1 + varint.widths(numbers.view(np.uint64)).astype(np.int64))


def fixed64s(values: Sequence[int] | Array) -> I64:
    """Sizes of fields of 64 bits."""
    return _unless_zero(np.array(values, np.int64), np.full(len(values), 9))


def byte_strings(lengths: I64) -> I64:
    """Sizes of bytes fields with content of these lengths."""
    return _unless_zero(lengths, length_delimited(lengths))


def length_delimited(lengths: I64) -> I64:
    """Sizes of fields that begin with a length, for content of these lengths; empty ones are there too."""
    return 1 + varint.widths(lengths.astype(np.uint64)) + lengths


def _unless_zero(values: I64, sizes: I64) -> I64:
    return np.where(values == 0, 0, sizes)
