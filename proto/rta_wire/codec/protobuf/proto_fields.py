"""The small parts of messages: tags, lengths and numbers. The bytes are those that protobuf itself writes: fields in
order, zero left out. Plain Python, a microsecond a message: numpy costs more until messages are many and tiny.
"""

import functools
import struct
from typing import Final, NamedTuple, cast

import numpy as np

from rta_wire.arrays import I64, U8

# Tags of the wire: field number << 3 | wire type (0 varint, 1 fixed 64 bits, 2 length first).
BURST_DATA: Final = 0x0A
ITEM_TIMESTAMPED: Final = 0x22
ITEM_PERIODIC: Final = 0x2A
ITEM_ROW: Final = 0x32
CHANNEL_ID: Final = 0x08
START_TIMESTAMP: Final = 0x11
DELTAS_SCALE: Final = 0x18
DELTAS: Final = 0x22
INTERVAL: Final = 0x18
SAMPLES: Final = 0x20
BUFFER: Final = 0x2A
ROW_CHANNEL_IDS: Final = 0x0A
ROW_TIMESTAMP: Final = 0x11
ROW_BUFFER: Final = 0x1A


_ALL_BITS: Final = 2**64 - 1
_CACHED: Final = 4096
"""Channels, scales and sizes come back in group after group."""


def varint_field(tag: int, value: int) -> bytes:
    """A varint field, zero included."""
    out = bytearray((tag,))
    rest = value & _ALL_BITS
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@functools.lru_cache(maxsize=_CACHED)
def cached_varint_field(tag: int, value: int) -> bytes:
    """The same for values that come often."""
    return varint_field(tag, value)


fixed64_field: Final = struct.Struct("<Bq").pack
"""A field of 64 bits from its tag and value."""

_FIXED_BYTES: Final = 9


@functools.lru_cache(maxsize=_CACHED)
def optional_varint_field(tag: int, value: int) -> bytes:
    """A varint field, or nothing for zero."""
    return cached_varint_field(tag, value) if value else b""


@functools.lru_cache(maxsize=_CACHED)
def message_prefix(item_tag: int, body_bytes: int) -> bytes:
    """What goes before a message of so many bytes: the item of the burst, and inside it the message."""
    inner = cached_varint_field(item_tag, body_bytes)
    return cached_varint_field(BURST_DATA, len(inner) + body_bytes) + inner


class TimestampedFrame(NamedTuple):
    """What a message holds besides its start, its deltas and its samples, and the size of all of it."""

    before_start: bytes
    before_deltas: bytes
    before_buffer: bytes
    size: int


@functools.lru_cache(maxsize=_CACHED)
def timestamped_frame(
    channel: int, has_start: bool, scale: int, delta_bytes: int, buffer_bytes: int
) -> TimestampedFrame:
    """The frame of a message: the same again for each channel, group after group."""
    channel_field = optional_varint_field(CHANNEL_ID, channel)
    before_deltas = cached_varint_field(DELTAS_SCALE, scale) + cached_varint_field(DELTAS, delta_bytes)
    before_buffer = cached_varint_field(BUFFER, buffer_bytes)
    body = len(channel_field) + _FIXED_BYTES * has_start + len(before_deltas) + delta_bytes
    body += len(before_buffer) + buffer_bytes
    lead = message_prefix(ITEM_TIMESTAMPED, body)
    return TimestampedFrame(lead + channel_field, before_deltas, before_buffer, len(lead) + body)


def split_buffer(data: U8, sizes: I64) -> list[memoryview]:
    """Bytes that lie side by side, one part for each size."""
    whole = as_memoryview(data)
    stops = np.cumsum(sizes).tolist()
    return [whole[first:last] for first, last in zip([0, *stops], stops, strict=False)]


def as_memoryview(data: U8) -> memoryview:
    """The bytes of an array, without copying. Python's types know arrays as buffers from 3.12 on only."""
    return memoryview(cast("bytes", data))
