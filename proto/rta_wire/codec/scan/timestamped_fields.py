"""The fields of timestamped messages of many bursts, by column."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire.arrays import I64, U32, Array


class TimestampedFields(NamedTuple):
    """A row for each message, ordered by burst."""

    bursts: I64
    """The index of its burst."""
    positions: I64
    """Its index in the burst."""
    channels: U32
    start_ns: I64
    scales: I64
    delta_sizes: I64
    buffer_sizes: I64
    deltas: bytes
    """Packed deltas of all messages, one after another."""
    buffers: bytes
    """Their samples."""


_NONE: Final = np.zeros(0, np.int64)
EMPTY: Final = TimestampedFields(_NONE, _NONE, np.zeros(0, np.uint32), _NONE, _NONE, _NONE, _NONE, b"", b"")


class FieldCollector:
    """Takes the fields of one message after another."""

    def __init__(self) -> None:
        self.bursts: list[int] = []
        self.positions: list[int] = []
        self.channels: list[int] = []
        self.start_ns: list[int] = []
        self.scales: list[int] = []
        self.deltas: list[bytes] = []
        self.buffers: list[bytes] = []

    def fields(self) -> TimestampedFields:
        """All that was taken."""
        if not self.bursts:
            return EMPTY
        return TimestampedFields(
            bursts=np.array(self.bursts, np.int64),
            positions=np.array(self.positions, np.int64),
            channels=np.array(self.channels, np.uint32),
            start_ns=np.array(self.start_ns, np.int64),
            scales=np.array(self.scales, np.int64),
            delta_sizes=np.fromiter(map(len, self.deltas), np.int64, len(self.deltas)),
            buffer_sizes=np.fromiter(map(len, self.buffers), np.int64, len(self.buffers)),
            deltas=b"".join(self.deltas),
            buffers=b"".join(self.buffers),
        )


def join(parts: Sequence[TimestampedFields]) -> TimestampedFields:
    """The fields of parts that have no burst in common."""
    parts = [part for part in parts if len(part.bursts)]
    if len(parts) < 2:
        return parts[0] if parts else EMPTY
    order = np.argsort(np.concatenate([part.bursts for part in parts]), kind="stable")
    of_bursts = sorted((piece for part in parts for piece in _pieces(part)), key=lambda piece: piece[0])

    def column(place: int) -> Array:
        return np.concatenate([np.asarray(part[place]) for part in parts])[order]

    return TimestampedFields(
        *(column(0), column(1), column(2), column(3), column(4), column(5), column(6)),
        b"".join(deltas for _, deltas, _ in of_bursts),
        b"".join(buffers for _, _, buffers in of_bursts),
    )


def _pieces(part: TimestampedFields) -> list[tuple[int, bytes, bytes]]:
    """For each burst its index, and what its messages have of deltas and samples."""
    firsts = np.flatnonzero(np.r_[True, part.bursts[1:] != part.bursts[:-1]])
    pieces = []
    delta_at = buffer_at = 0
    for burst, delta_size, buffer_size in zip(
        part.bursts[firsts].tolist(),
        np.add.reduceat(part.delta_sizes, firsts).tolist(),
        np.add.reduceat(part.buffer_sizes, firsts).tolist(),
        strict=True,
    ):
        delta_end, buffer_end = delta_at + delta_size, buffer_at + buffer_size
        pieces.append((burst, part.deltas[delta_at:delta_end], part.buffers[buffer_at:buffer_end]))
        delta_at, buffer_at = delta_end, buffer_end
    return pieces
