"""For the encoder: decimals as numbers of 64 bits, without a loss where that is possible.

Numpy has no decimals. A column of them becomes an array of records, which can be sorted and selected as any other: each
has the nearest double, and the whole number where the decimal is one that 64 bits hold. The type of the channel says
which of the two is its sample.
"""

import enum
import functools
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rta_wire.arrays import F64, I64, Array, Bools

DOUBLE: Final = "double"
WHOLE: Final = "whole"
RANGE: Final = "range"

RECORD: Final = np.dtype([(DOUBLE, np.float64), (WHOLE, np.uint64), (RANGE, np.int8)])
"""The nearest double; the lowest 64 bits of the whole number, as two's complement; and which decimals these are."""


class DecimalRange(enum.IntEnum):
    """What a decimal is, for a channel of integers."""

    NEGATIVE = -1
    """A whole number from -2^63 to -1."""
    FRACTION = 0
    NOT_NEGATIVE = 1
    """A whole number from 0 to 2^64 - 1."""
    TOO_LARGE = 2
    """A whole number that no 64 bits hold."""


_EXACT_DIGITS: Final = 22
"""Powers of ten up to this one are doubles without rounding."""

_EXACT_MAX: Final = 2**53
_MIN_WORDS: Final = 2
_WORD_BYTES: Final = 8


def is_decimal(dtype: np.dtype[Any]) -> bool:
    """Whether an array holds records of decimals."""
    return dtype == RECORD


def records(source: pa.Array) -> Array:
    """The records of an Arrow array of decimals; those of nulls are of no use."""
    source = _prepare(source)
    made = np.empty(len(source), RECORD)
    words = _words(source)
    made[DOUBLE] = _doubles(source, words)
    is_whole = None
    if source.type.scale:
        whole = source.cast(_whole_type(source.type), safe=False)
        if source.type.scale > 0:
            again = _words(whole.cast(source.type))
            is_whole = functools.reduce(np.logical_and, (again == words).T)
        words = _words(whole)
    made[WHOLE] = words[:, 0].view(np.uint64)
    made[RANGE] = _ranges(words, is_whole)
    return made


def nearest_doubles(source: pa.Array) -> F64:
    """The double that is nearest to each decimal of an Arrow array: faster than the records where that is enough."""
    source = _prepare(source)
    return _doubles(source, _words(source))


def doubles(values: Array) -> F64:
    """The double that is nearest to each decimal."""
    return np.ascontiguousarray(values[DOUBLE])


def integers(values: Array, dtype: np.dtype[Any]) -> tuple[Array, Bools]:
    """The whole numbers in a type of integers, and which of the decimals are none that it holds."""
    samples = values[WHOLE].astype(dtype)
    is_negative = values[RANGE] == DecimalRange.NEGATIVE
    is_in_range = is_negative | (values[RANGE] == DecimalRange.NOT_NEGATIVE)
    # What the type does not hold comes back as another number, or with another sign.
    is_same = (samples.astype(np.uint64) == values[WHOLE]) & ((samples < 0) == is_negative)
    return samples, ~(is_in_range & is_same)


def quote(value: Any) -> str:
    """A decimal as errors show it, with what keeps it from being an integer."""
    kind = DecimalRange(int(value[RANGE]))
    if kind is DecimalRange.FRACTION:
        return f"a decimal with a fraction, about {float(value[DOUBLE])!r},"
    if kind is DecimalRange.TOO_LARGE:
        return f"a decimal beyond 64 bits, about {float(value[DOUBLE])!r},"
    return str(int(value[WHOLE]) - (2**64 if kind is DecimalRange.NEGATIVE else 0))


def _prepare(source: pa.Array) -> pa.Array:
    """The decimals without nulls, in words of 64 bits."""
    source = source.fill_null(0) if source.null_count else source
    if source.type.byte_width < _MIN_WORDS * _WORD_BYTES:
        source = source.cast(pa.decimal128(38, source.type.scale))
    return source


def _whole_type(decimal_type: Any) -> Any:
    """The type of whole numbers with room for all digits that a decimal may have before the point."""
    is_short = decimal_type.byte_width == _MIN_WORDS * _WORD_BYTES and decimal_type.scale > 0
    return pa.decimal128(38, 0) if is_short else pa.decimal256(76, 0)


def _words(source: pa.Array) -> I64:
    """The unscaled number of each decimal in words of 64 bits, the lowest one first."""
    count = source.type.byte_width // _WORD_BYTES
    if not len(source):
        return np.zeros((0, count), np.int64)
    offset = source.offset * source.type.byte_width
    return np.frombuffer(source.buffers()[1], np.int64, count * len(source), offset).reshape(-1, count)


def _doubles(source: pa.Array, words: I64) -> F64:
    """The nearest doubles. Arrow's own cast is off by a bit for one decimal in eight, its parser of text is not."""
    lowest = words[:, 0].copy()
    scale = source.type.scale
    if abs(scale) <= _EXACT_DIGITS and _are_small(lowest, words):
        # Both are doubles without rounding, so that their quotient is the nearest one.
        power = 10.0 ** abs(scale)
        return np.asarray(lowest / power if scale >= 0 else lowest * power)
    return np.asarray(source.cast(pa.string()).cast(pa.float64()).to_numpy())


def _are_small(lowest: I64, words: I64) -> bool:
    """Whether all unscaled numbers are doubles without rounding."""
    if not len(lowest):
        return True
    if not (int(lowest.min()) >= -_EXACT_MAX and int(lowest.max()) <= _EXACT_MAX):
        return False
    sign = lowest >> 63
    return all(bool((words[:, place] == sign).all()) for place in range(1, words.shape[1]))


def _ranges(words: I64, is_whole: Bools | None) -> Array:
    lowest, others = words[:, 0], words[:, 1:]
    upper = others[:, 0] if others.shape[1] == 1 else np.where((others == others[:, :1]).all(axis=1), others[:, 0], 1)
    ranges = np.full(len(words), DecimalRange.TOO_LARGE, np.int8)
    ranges[upper == 0] = DecimalRange.NOT_NEGATIVE
    ranges[(upper == -1) & (lowest < 0)] = DecimalRange.NEGATIVE
    if is_whole is not None:
        ranges[~is_whole] = DecimalRange.FRACTION
    return ranges
