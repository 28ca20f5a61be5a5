"""Heads of many messages at once: tags, lengths and small fields, built as one table of bytes with numpy.

The bytes are the ones that protobuf itself writes: fields in order, zero left out.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rta_wire import varint

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

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


class Field(NamedTuple):
    """One field of every message: its bytes in a table, and how many of each row count."""

    table: U8
    size: I64


def number(tag: int, values: npt.NDArray[np.integer], *, always: bool = False) -> Field:
    """A varint field. Zero is left out unless it is a length."""
    unsigned = values.astype(np.uint64)
    width = varint.widths(unsigned)
    body = varint.matrix(unsigned, width)
    table = np.empty((len(values), body.shape[1] + 1), np.uint8)
    table[:, 0] = tag
    table[:, 1:] = body
    size = width.astype(np.int64) + 1
    if not always:
        size[unsigned == 0] = 0
    return Field(table, size)


def fixed(tag: int, values: I64) -> Field:
    """A field of 64 bits. Zero is left out."""
    table = np.empty((len(values), 9), np.uint8)
    table[:, 0] = tag
    table[:, 1:] = values.astype("<i8").view(np.uint8).reshape(-1, 8)
    return Field(table, np.where(values == 0, 0, 9))


def wrap(item_tag: int, body_sizes: I64) -> tuple[Field, Field]:
    """What goes before a message of so many bytes: the item of the burst, and inside it the message."""
    inner = number(item_tag, body_sizes, always=True)
    outer = number(BURST_DATA, body_sizes + inner.size, always=True)
    return outer, inner


def join(fields: list[Field]) -> tuple[memoryview, I64]:
    """The fields of each message side by side, and where each message's bytes end."""
    table = np.concatenate([field.table for field in fields], axis=1)
    keep = np.concatenate([np.arange(field.table.shape[1]) < field.size[:, None] for field in fields], axis=1)
    ends = np.cumsum(sum((field.size for field in fields), np.zeros(len(table), np.int64)))
    return memoryview(table[keep]).cast("B"), ends


def split(data: memoryview, ends: I64) -> list[memoryview]:
    """What `join` made, message by message."""
    stops = ends.tolist()
    return [data[first:last] for first, last in zip([0, *stops], stops, strict=False)]
