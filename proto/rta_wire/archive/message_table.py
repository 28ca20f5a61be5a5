"""The messages of bursts without their samples: what else is needed to write the same messages again.

A sample by itself does not tell whether it came timestamped, periodic or in a row, and with which neighbours. The table
does, with a line for each message in the order of the stream.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from rta_wire.arrays import I64, U8
from rta_wire.codec import layout
from rta_wire.codec.protobuf import varint
from rta_wire.codec.scan.field_scan import MessageFields

KINDS: Final = tuple(layout.Kind)
"""Kinds by their codes in a table."""

NO_ROW_SET: Final = -1
"""In place of the index of a row set: the message holds one channel."""


class MessageTable(NamedTuple):
    """Messages with samples, in the order of the stream; each column has an element for each message."""

    bursts: I64
    """The index of the burst."""
    positions: I64
    """The index of the message in its burst."""
    kinds: U8
    """Codes: indices in `KINDS`."""
    channels: I64
    """0 for a row, which has several."""
    times_ns: I64
    """The time of the first sample."""
    steps_ns: I64
    """The interval of periodic data, the scale of the deltas of timestamped data, 0 for a row."""
    samples: I64
    row_sets: I64
    """Indices in `sets`, `NO_ROW_SET` where the message is no row."""
    sets: list[tuple[int, ...]]
    """The channels of rows in their order, each combination once."""


def build(fields: MessageFields, layouts: layout.Plan) -> MessageTable:
    """The table of messages, from the fields of those with samples."""
    widths = np.array([one.type.dtype.itemsize for one in layouts.layouts])
    lines: list[I64] = []
    stamped = fields.timestamped
    if len(stamped.bursts):
        counts = stamped.buffer_sizes // widths[layouts.codes(stamped.channels)]
        columns = stamped.channels, stamped.start_ns, stamped.scales, counts
        lines.append(_lines(0, stamped.bursts, stamped.positions, *columns, NO_ROW_SET))
    if fields.periodic:
        bursts, channels, starts, intervals, claimed, _ = zip(*fields.periodic, strict=True)
        lines.append(_lines(1, bursts, fields.periodic_at, channels, starts, intervals, claimed, NO_ROW_SET))
    sets: list[tuple[int, ...]] = []
    if fields.rows:
        bursts, times, packed, _ = zip(*fields.rows, strict=True)
        index_of: dict[bytes, int] = {}
        row_sets = np.array([index_of.setdefault(ids, len(index_of)) for ids in packed], np.int64)
        sets = [_unpack(ids) for ids in index_of]
        counts = np.array([len(channels) for channels in sets], np.int64)[row_sets]
        lines.append(_lines(2, bursts, fields.rows_at, 0, times, 0, counts, row_sets))
    if not lines:
        return empty()
    table = np.concatenate(lines, axis=1)
    table = table[:, np.lexsort((table[1], table[0]))]
    return _from_columns(table, sets)


def empty() -> MessageTable:
    """The table of no messages."""
    return _from_columns(np.zeros((8, 0), np.int64), [])


def _from_columns(table: I64, sets: list[tuple[int, ...]]) -> MessageTable:
    return MessageTable(
        bursts=table[0],
        positions=table[1],
        kinds=table[2].astype(np.uint8),
        channels=table[3],
        times_ns=table[4],
        steps_ns=table[5],
        samples=table[6],
        row_sets=table[7],
        sets=sets,
    )


def _lines(kind: int, bursts: Sequence[int] | I64, positions: Sequence[int] | I64, *columns: Any) -> I64:
    """The columns of messages of one kind, in the order of a table; a single number holds for all messages."""
    table = np.empty((8, len(bursts)), np.int64)
    for index, column in enumerate((bursts, positions, kind, *columns)):
        table[index] = column
    return table


def _unpack(packed: bytes) -> tuple[int, ...]:
    decoded = varint.decode(np.frombuffer(packed, np.uint8))
    # Protobuf keeps the low 32 bits of a longer number.
    return () if decoded is None else tuple(decoded[0].astype(np.uint32).tolist())
