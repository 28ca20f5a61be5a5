"""What rows hold, as a number that does not depend on their order: equal for a stream and for files made of it.

Each row becomes 64 mixed bits, and those of all rows are added. It finds rows that are missing, doubled or changed by
mistake; it is no protection against somebody who wants to deceive.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from rta_wire.arrays import F64, I64, U64, Array, Bools

PART_ROWS: Final = 16_384
"""Rows that are mixed at a time: what stays near the processor costs a third."""

_BITS: Final = 2**64
_CHANNEL, _TIME, _VALUE, _WHOLE, _SIGN = (
    np.uint64(odd)
    for odd in (
        *(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0xD6E8FEB86659FD93, 0xA0761D6478BD642F),
    )
)
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT: Final = np.uint64(32)
_EVENT: Final = struct.Struct("<iqII")


class Digest(msgspec.Struct, frozen=True):
    """How many rows, and the sum of their bits."""

    rows: int = 0
    sum: int = 0

    def sum_of(self, other: "Digest") -> "Digest":
        return Digest(self.rows + other.rows, (self.sum + other.sum) % _BITS)

    @property
    def text(self) -> str:
        return f"{self.sum:016x}"


class Int64Values(msgspec.Struct, frozen=True):
    """Whole numbers of 64 bits beside their nearest doubles: the low bits, and which are below 0."""

    low: U64
    negative: Bools

    @classmethod
    def from_values(cls, values: Array) -> "Int64Values":
        return cls(values.astype(values.dtype, copy=False).view(np.uint64), values < 0)


def of_samples(channels: Array, times_ns: I64, values: F64, whole: Int64Values | None = None) -> Digest:
    """Of samples. Values count bit by bit: 0.0 is not -0.0, and one NaN is not another."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    times = np.ascontiguousarray(times_ns).view(np.uint64)
    total = 0
    for first in range(0, len(times), PART_ROWS):
        part = slice(first, first + PART_ROWS)
        mixed = channels[part].astype(np.uint64) * _CHANNEL
        mixed += times[part] * _TIME
        mixed += bits[part] * _VALUE
        if whole is not None:
            mixed += whole.low[part] * _WHOLE
            mixed += (whole.negative[part] + np.uint64(1)) * _SIGN
        total += int(_mixed(mixed).sum(dtype=np.uint64))
    return Digest(len(times), total % _BITS)


def _mixed(bits: U64) -> U64:
    """Bits of which each depends on all. In place."""
    for odd in _MIX:
        bits ^= bits >> _SHIFT
        bits *= odd
    bits ^= bits >> _SHIFT
    return bits


EventFields = tuple[int, int, str, str, Sequence[float]]
"""Definition, time in ns, application, status, raw data."""


def of_events(found: Iterable[EventFields]) -> Digest:
    """Of events."""
    total = rows = 0
    for definition, time_ns, app_name, status_text, raw_data in found:
        texts = app_name.encode(), status_text.encode()
        made = hashlib.blake2b(_EVENT.pack(definition, time_ns, len(texts[0]), len(texts[1])), digest_size=8)
        made.update(b"".join(texts))
        made.update(np.array(raw_data, "<f8").tobytes())
        total += int.from_bytes(made.digest(), "little")
        rows += 1
    return Digest(rows, total % _BITS)
