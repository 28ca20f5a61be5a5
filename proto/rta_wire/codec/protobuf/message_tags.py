"""For encoder and decoder: tags of the fields of a burst and its messages, and the bytes before a message in a burst.

A tag is `field number << 3 | wire type`, where 0 is a varint, 1 fixed 64 bits and 2 a length with so many bytes. Field
numbers are those of `stream.proto` and `data.proto`.
"""

import functools
from typing import Final

from rta_wire.codec.protobuf import proto_fields

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


@functools.lru_cache(maxsize=proto_fields.CACHED_FIELDS)
def message_prefix(item_tag: int, body_bytes: int) -> bytes:
    """Tags and lengths before a message of so many bytes: of the item in the burst, then of the message in it."""
    inner = proto_fields.cached_varint_field(item_tag, body_bytes)
    return proto_fields.cached_varint_field(BURST_DATA, len(inner) + body_bytes) + inner
