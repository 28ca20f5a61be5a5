"""A digest of rows that does not depend on their order: equal for a stream and for files made of it.

Each row is hashed to 64 bits, and the hashes of all rows are added. The digest finds rows that are missing, doubled or
changed by mistake; it does not withstand somebody who forges rows.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from rta_wire.arrays import F64, I64, U64, Array, Bools

CHUNK_ROWS: Final = 16_384
"""Rows that are hashed at a time: what stays in the cache of the processor takes a third of the time."""

_MODULUS: Final = 2**64
_CHANNEL, _TIME, _VALUE, _INTEGER, _SIGN = (
    np.uint64(factor)
    for factor in (
        *(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0xD6E8FEB86659FD93, 0xA0761D6478BD642F),
    )
)
_MIX_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT: Final = np.uint64(32)
_EVENT: Final = struct.Struct("<iqII")


class Digest(msgspec.Struct, frozen=True):
    """Number of rows, and the sum of their hashes modulo 2^64."""

    rows: int = 0
    sum: int = 0

    def sum_of(self, other: "Digest") -> "Digest":
        """The digest of the rows of both."""
        return Digest(self.rows + other.rows, (self.sum + other.sum) % _MODULUS)

    @property
    def text(self) -> str:
        """The sum in hexadecimal digits."""
        return f"{self.sum:016x}"


class Int64Values(msgspec.Struct, frozen=True):
    """Integers of 64 bits, many of which no double can represent: their bits, and which of them are negative."""

    low: U64
    negative: Bools

    @classmethod
    def from_values(cls, values: Array) -> "Int64Values":
        """From an array of signed or unsigned integers of 64 bits."""
        return cls(values.astype(values.dtype, copy=False).view(np.uint64), values < 0)


def of_samples(channels: Array, times_ns: I64, values: F64, integers: Int64Values | None = None) -> Digest:
    """The digest of samples. Values count bit by bit: 0.0 is not -0.0, and NaNs with other bits differ.

    `integers` are the exact values of channels with 64-bit integers, of which `values` has the nearest doubles.
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    times = np.ascontiguousarray(times_ns).view(np.uint64)
    total = 0
    for first in range(0, len(times), CHUNK_ROWS):
        chunk = slice(first, first + CHUNK_ROWS)
        hashes = channels[chunk].astype(np.uint64) * _CHANNEL
        hashes += times[chunk] * _TIME
        hashes += bits[chunk] * _VALUE
        if integers is not None:
            hashes += integers.low[chunk] * _INTEGER
            hashes += (integers.negative[chunk] + np.uint64(1)) * _SIGN
        _mix(hashes)
        total += int(hashes.sum(dtype=np.uint64))
    return Digest(len(times), total % _MODULUS)


def _mix(hashes: U64) -> None:
    """Makes each bit of a hash depend on all of its bits, in place."""
    for factor in _MIX_FACTORS:
        hashes ^= hashes >> _SHIFT
        hashes *= factor
    hashes ^= hashes >> _SHIFT


EventFields = tuple[int, int, str, str, Sequence[float]]
"""An event: definition, time in ns, name of the application, status, raw data."""


def of_events(events: Iterable[EventFields]) -> Digest:
    """The digest of events."""
    total = rows = 0
    for definition, time_ns, app_name, status_text, raw_data in events:
        texts = app_name.encode(), status_text.encode()
        event_hash = hashlib.blake2b(_EVENT.pack(definition, time_ns, len(texts[0]), len(texts[1])), digest_size=8)
        event_hash.update(b"".join(texts))
        event_hash.update(np.array(raw_data, "<f8").tobytes())
        total += int.from_bytes(event_hash.digest(), "little")
        rows += 1
    return Digest(rows, total % _MODULUS)
