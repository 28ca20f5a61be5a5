"""Conversions: from a sample as it is stored to the number or the text that people read."""

import math
from collections.abc import Sequence
from typing import Final, Self

import msgspec
import numpy as np

from rta_wire.arrays import F64, Array

COEFFICIENTS: Final = 6
TABLE_MAX_ROWS: Final = 1000
TEXT_MAX_CHARS: Final = 200


class RationalConversion(msgspec.Struct, frozen=True):
    """(c1 r² + c2 r + c3) / (c4 r² + c5 r + c6) for a sample r."""

    coefficients: tuple[float, ...]

    def with_floats(self) -> Self:
        """The same with numbers that are written in one way."""
        return type(self)(_floats(self.coefficients))

    def check(self) -> None:
        """Raise ValueError with a reason where it can't convert."""
        if len(self.coefficients) != COEFFICIENTS:
            raise ValueError(f"a rational conversion has {COEFFICIENTS} coefficients, not {len(self.coefficients)}")
        _check_finite(self.coefficients, "coefficient")
        if not any(self.coefficients[3:]):
            raise ValueError("the last three coefficients of a rational conversion are its divisor, and all are 0")

    def convert(self, samples: Array) -> F64:
        """Engineering values of samples. Where the divisor is 0 they are infinite, or no numbers."""
        raw = np.asarray(samples, np.float64)
        c1, c2, c3, c4, c5, c6 = self.coefficients
        with np.errstate(all="ignore"):
            converted: F64 = (c1 * raw * raw + c2 * raw + c3) / (c4 * raw * raw + c5 * raw + c6)
        return converted


class TableConversion(msgspec.Struct, frozen=True):
    """A list of samples and the engineering value of each. Between two of them the value is interpolated, or that of
    the lower one; beyond the ends it is that of the end."""

    raw: tuple[float, ...]
    calibrated: tuple[float, ...]
    interpolated: bool = False

    def with_floats(self) -> Self:
        """The same with numbers that are written in one way."""
        return type(self)(_floats(self.raw), _floats(self.calibrated), self.interpolated)

    def check(self) -> None:
        """Raise ValueError with a reason where it can't convert."""
        _check_pairs("table", self.raw, self.calibrated)
        _check_finite(self.calibrated, "calibrated value")
        if any(low >= high for low, high in zip(self.raw, self.raw[1:], strict=False)):
            raise ValueError("the raw values of a table conversion have to rise")

    def convert(self, samples: Array) -> F64:
        """Engineering values of samples."""
        raw = np.asarray(samples, np.float64)
        if self.interpolated:
            return np.interp(raw, self.raw, self.calibrated)
        places = np.clip(np.searchsorted(self.raw, raw, side="right") - 1, 0, None)
        converted = np.asarray(self.calibrated, np.float64)[places]
        return np.where(np.isnan(raw), np.nan, converted)


class TextConversion(msgspec.Struct, frozen=True):
    """Texts for certain samples, and one for all others."""

    keys: tuple[float, ...]
    values: tuple[str, ...]
    default: str = ""

    def with_floats(self) -> Self:
        """The same with numbers that are written in one way, in their order."""
        if len(self.keys) != len(self.values):
            return self
        pairs = sorted(zip(_floats(self.keys), self.values, strict=True))
        return type(self)(tuple(key for key, _ in pairs), tuple(text for _, text in pairs), self.default)

    def check(self) -> None:
        """Raise ValueError with a reason where it can't convert."""
        _check_pairs("text", self.keys, self.values)
        if len(set(self.keys)) != len(self.keys):
            raise ValueError("a text conversion has a text for the same value twice")
        for text in (*self.values, self.default):
            if len(text) > TEXT_MAX_CHARS or not text.isprintable():
                raise ValueError(
                    f"the text {text[:20]!r} of a conversion is not printable, or longer than {TEXT_MAX_CHARS}"
                )

    def text(self, sample: float) -> str:
        """The text for a sample; empty where neither the list nor the default has one."""
        return dict(zip(self.keys, self.values, strict=True)).get(sample, self.default)


Conversion = RationalConversion | TableConversion | TextConversion


def _check_pairs(what: str, keys: Sequence[float], values: Sequence[object]) -> None:
    if len(keys) != len(values):
        raise ValueError(f"a {what} conversion has {len(keys)} values and {len(values)} results for them")
    if not 1 <= len(keys) <= TABLE_MAX_ROWS:
        raise ValueError(f"a {what} conversion has 1 to {TABLE_MAX_ROWS} values, not {len(keys)}")
    _check_finite(keys, "value")


def _check_finite(numbers: Sequence[float], what: str) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"a {what} of the conversion is {number}")


def _floats(numbers: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(number) + 0.0 for number in numbers)  # -0.0 + 0.0 is 0.0
