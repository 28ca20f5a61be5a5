"""Encodes single fields of protobuf messages as bytes, the same that protobuf itself writes.

Plain Python, a microsecond a message: numpy costs more until messages are many and tiny.
"""

import functools
import struct
from typing import Final

_ALL_BITS: Final = 2**64 - 1
CACHED_FIELDS: Final = 16_384
"""Fields that are kept once made: channels, scales and sizes are the same in group after group. More channels than this
find none of theirs in the cache, since they come in turns."""


def varint_field(tag: int, value: int) -> bytes:
    """A varint field, zero included."""
    field = bytearray((tag,))
    rest = value & _ALL_BITS
    while rest > 0x7F:
        field.append(rest & 0x7F | 0x80)
        rest >>= 7
    field.append(rest)
    return bytes(field)


@functools.lru_cache(maxsize=CACHED_FIELDS)
def cached_varint_field(tag: int, value: int) -> bytes:
    """A varint field, zero included, for values that come often."""
    return varint_field(tag, value)


@functools.lru_cache(maxsize=CACHED_FIELDS)
def optional_varint_field(tag: int, value: int) -> bytes:
    """A varint field, or nothing for zero, as protobuf does with fields that have no presence."""
    return cached_varint_field(tag, value) if value else b""


FIXED64_FIELD_BYTES: Final = 9
fixed64_field: Final = struct.Struct("<Bq").pack
"""A field of 64 bits from its tag and value, zero included."""
