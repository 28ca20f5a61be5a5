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

from rta_wire import entry_ids
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
_ENTRY_BYTES: Final = 24


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


def of_numbers(columns: Sequence[Array], texts: Sequence[bytes], text_index: I64) -> Digest:
    """The digest of rows that are whole numbers of up to 64 bits and a text, given by its index in `texts`."""
    text_hashes = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    hashes = np.array(text_hashes, np.uint64)[text_index] if len(text_index) else np.zeros(0, np.uint64)
    for column in columns:
        # Mixed after each column, so that the same numbers in other columns differ.
        _mix(hashes)
        hashes += column.astype(np.uint64, copy=False) * _VALUE
    _mix(hashes)
    return Digest(len(hashes), int(hashes.sum(dtype=np.uint64)))


class EntryHashes(msgspec.Struct, frozen=True):
    """A hash of each of some entries of a stream as they are stored, each once: 24 bytes an entry."""

    rows: bytes = b""
    """For each entry the two numbers of its id, and the hash of its id and data."""

    @classmethod
    def of(cls, entries: Iterable[tuple[str, bytes]]) -> "EntryHashes":
        """Of entries, each an id and its data."""
        ids, sums = [], []
        for entry_id, data in entries:
            ids.append(entry_ids.parse(entry_id))
            sums.append(_sum_of_bytes(data))
        table = np.empty((len(ids), 3), "<u8")
        table[:, :2] = np.array(ids, np.uint64).reshape(-1, 2)
        hashes = np.array(sums, np.uint64)
        for column, factor in zip(table[:, :2].T, (_TIME, _VALUE), strict=True):
            _mix(hashes)
            hashes += column * factor
        _mix(hashes)
        table[:, 2] = hashes
        return cls(table.tobytes())

    @property
    def digest(self) -> Digest:
        """Of all of them."""
        hashes = self._table[:, 2]
        return Digest(len(hashes), int(hashes.sum(dtype=np.uint64)))

    @property
    def _table(self) -> U64:
        return np.frombuffer(self.rows, "<u8").reshape(-1, 3)

    def without(self, other: "EntryHashes") -> "EntryHashes":
        """Those that are not among others."""
        return EntryHashes(b"".join(sorted(_entry_rows(self.rows) - _entry_rows(other.rows))))

    def below(self, entry_id: str) -> "EntryHashes":
        """Those of entries before an id."""
        ms, seq = entry_ids.parse(entry_id)
        table = self._table
        return EntryHashes(table[(table[:, 0] < ms) | ((table[:, 0] == ms) & (table[:, 1] < seq))].tobytes())


def _entry_rows(rows: bytes) -> set[bytes]:
    return {rows[first : first + _ENTRY_BYTES] for first in range(0, len(rows), _ENTRY_BYTES)}


def _sum_of_bytes(data: bytes) -> int:
    """Words of 8 bytes, each multiplied by an odd number of its own: several times as fast as a cryptographic hash."""
    words = np.frombuffer(data, "<u8", len(data) // 8)
    total = len(data) * int(_CHANNEL) + int.from_bytes(data[8 * len(words) :], "little") * int(_SIGN)
    for first in range(0, len(words), len(_WORD_FACTORS)):
        part = words[first : first + len(_WORD_FACTORS)]
        total = total * int(_INTEGER) + int((part * _WORD_FACTORS[: len(part)]).sum(dtype=np.uint64))
    return total % _MODULUS


def _odd_factors(count: int) -> U64:
    factors = np.arange(1, count + 1, dtype=np.uint64) * _CHANNEL
    _mix(factors)
    return factors | np.uint64(1)


_WORD_FACTORS: Final = _odd_factors(CHUNK_ROWS)
