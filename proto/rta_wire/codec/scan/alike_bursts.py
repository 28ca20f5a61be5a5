"""Reads bursts that differ in their times and samples alone, many at once: those of a recorder, which sends the same
channels again and again.

One of them says where in its bytes everything stands, and the others are compared with it byte by byte. What is not
alike is left to protobuf.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire.arrays import I64, U8, U32
from rta_wire.codec.scan import timestamped_fields
from rta_wire.codec.scan.timestamped_fields import TimestampedFields

MIN_BURSTS: Final = 4
"""So many bursts of one size are worth it."""

MESSAGE_MAX_BYTES: Final = 256
"""Mean size of their messages: longer ones are read as fast by protobuf."""

BURST_MAX_BYTES: Final = 64 * 1024

_ITEM, _TIMESTAMPED = 0x0A, 0x22
_CHANNEL, _START, _SCALE, _DELTAS, _BUFFER = 0x08, 0x11, 0x18, 0x22, 0x2A
_VARINT_BYTES: Final = 9
"""Of the longest varint that is read here: all of less than 64 bits."""

_CHANNEL_MAX: Final = 2**32 - 1


class _Layout(NamedTuple):
    """Where in a burst everything stands."""

    fixed: I64
    """Places of tags, sizes, channels and scales."""
    starts: I64
    deltas: I64
    buffers: I64
    channels: U32
    scales: I64
    delta_sizes: I64
    buffer_sizes: I64


def take(raws: Sequence[bytes]) -> tuple[TimestampedFields, Mapping[int, bytes]]:
    """The fields of bursts that are alike, and all other bursts, by their indices."""
    by_size: dict[int, list[int]] = {}
    for index, raw in enumerate(raws):
        by_size.setdefault(len(raw), []).append(index)
    parts: list[TimestampedFields] = []
    others: dict[int, bytes] = {}
    for size, indices in by_size.items():
        left = indices
        layout = _layout(raws[indices[0]]) if len(indices) >= MIN_BURSTS and size <= BURST_MAX_BYTES else None
        if layout is not None:
            rows = np.frombuffer(b"".join([raws[index] for index in indices]), np.uint8).reshape(len(indices), size)
            is_alike = (rows.take(layout.fixed, axis=1) == rows[0, layout.fixed]).all(axis=1)
            alike = np.array(indices)[is_alike]
            parts.append(_fields(layout, alike, rows if len(alike) == len(rows) else rows[is_alike]))
            left = np.array(indices)[~is_alike].tolist()
        others.update((index, raws[index]) for index in left)
    return timestamped_fields.join(parts), dict(sorted(others.items()))


def _fields(layout: _Layout, bursts: I64, rows: U8) -> TimestampedFields:
    """The fields of bursts, given as rows of bytes."""
    messages = len(layout.channels)
    return TimestampedFields(
        bursts=np.repeat(bursts, messages),
        positions=np.tile(np.arange(messages), len(rows)),
        channels=np.tile(layout.channels, len(rows)),
        start_ns=rows.take(layout.starts, axis=1).reshape(-1).view("<i8"),
        scales=np.tile(layout.scales, len(rows)),
        delta_sizes=np.tile(layout.delta_sizes, len(rows)),
        buffer_sizes=np.tile(layout.buffer_sizes, len(rows)),
        deltas=rows.take(layout.deltas, axis=1).tobytes(),
        buffers=rows.take(layout.buffers, axis=1).tobytes(),
    )


class _Unlike(Exception):
    """A burst has something else than timestamped messages, or is not written in the usual order."""


def _layout(raw: bytes) -> _Layout | None:
    """Where everything stands in a burst of timestamped messages alone; None where it has anything else."""
    messages: list[tuple[int, int, int, slice, slice]] = []
    at = 0
    try:
        while at < len(raw):
            size, at = _varint(raw, _tagged(raw, at, _ITEM))
            end = at + size
            size, at = _varint(raw, _tagged(raw, at, _TIMESTAMPED))
            if at + size != end or end > len(raw):
                return None
            messages.append(_message(raw, at, end))
            at = end
    except (_Unlike, IndexError):
        return None
    if not messages or len(raw) > MESSAGE_MAX_BYTES * len(messages):
        return None
    channels, starts, scales, deltas, buffers = zip(*messages, strict=True)
    start_places = _places([slice(start, start + 8) for start in starts])
    delta_places, buffer_places = _places(deltas), _places(buffers)
    is_fixed = np.ones(len(raw), np.bool_)
    is_fixed[np.concatenate([start_places, delta_places, buffer_places])] = False
    return _Layout(
        np.flatnonzero(is_fixed),
        start_places,
        delta_places,
        buffer_places,
        np.array(channels, np.uint32),
        np.array(scales, np.int64),
        np.array([part.stop - part.start for part in deltas], np.int64),
        np.array([part.stop - part.start for part in buffers], np.int64),
    )


def _message(raw: bytes, at: int, end: int) -> tuple[int, int, int, slice, slice]:
    """Channel, place of the start time, scale, and places of deltas and samples of a message that ends there."""
    channel = scale = 0
    if raw[at] == _CHANNEL:
        channel, at = _varint(raw, at + 1)
    start = _tagged(raw, at, _START)
    at = start + 8
    if raw[at] == _SCALE:
        scale, at = _varint(raw, at + 1)
    size, at = _varint(raw, _tagged(raw, at, _DELTAS))
    deltas = slice(at, at + size)
    size, at = _varint(raw, _tagged(raw, at + size, _BUFFER))
    if at + size != end or channel > _CHANNEL_MAX:
        raise _Unlike
    return channel, start, scale, deltas, slice(at, end)


def _tagged(raw: bytes, at: int, tag: int) -> int:
    """The place behind a tag."""
    if raw[at] != tag:
        raise _Unlike
    return at + 1


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A varint of less than 64 bits, and the place behind it."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _Unlike


def _places(parts: Sequence[slice]) -> I64:
    """All places of some parts of a burst."""
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])
