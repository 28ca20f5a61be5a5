"""Rows of the archive: decoded samples, events and messages as Arrow tables with the columns that files have."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from rta_wire import entry_ids
from rta_wire.archive import message_table, schema
from rta_wire.archive.messages import MessageColumns
from rta_wire.archive.samples import ArchivedSamples
from rta_wire.arrays import I64, Array, Bools
from rta_wire.channels import model
from rta_wire.codec import burst, decode, layout
from rta_wire.codec.scan.field_scan import MessageFields
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_writers.read import batches as read_batches
from rta_writers.read.channels import ChannelNames

_NO_NAMES: Final = ChannelNames(model.EMPTY)
_CONSTANT_ROWS: Final = 1 << 16


class SessionLayout(msgspec.Struct, frozen=True):
    """One session, how its samples are stored, and which of its entries are archived."""

    identity: str
    layouts: layout.Plan
    framing: burst.Framing = burst.Framing.RAW
    after: str = entry_ids.MIN
    """Entries after this id."""
    part: int = 1
    """The number of the part that is written."""
    channels: model.ChannelList = model.EMPTY
    """What its configuration says about its channels."""

    def decode(self, entries: Sequence[StreamEntry]) -> decode.DecodedMessages:
        """What entries of the session hold."""
        return decode.messages(entries, self.layouts, framing=self.framing)


SessionLayouts = Mapping[int, SessionLayout]
"""Sessions by stream session id."""


class MessageCollector:
    """Gathers the messages of many entries into one table."""

    def __init__(self, layouts: layout.Plan) -> None:
        self._layouts = layouts
        self._types: dict[str, int] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._pages: list[MessageColumns] = []

    def add(self, fields: MessageFields, entries: Sequence[StreamEntry], chunk: int) -> None:
        """Take the messages of some entries, whose samples stand in one chunk."""
        table = message_table.build(fields, self._layouts)
        if not len(table.kinds):
            return
        ids = [entry_ids.parse(entry.id) for entry in entries]
        ms, seq = (np.array(numbers, np.uint64)[table.bursts] for numbers in zip(*ids, strict=True))
        set_codes = np.array([self._sets.setdefault(one, len(self._sets)) for one in table.sets] or [0], np.int64)
        is_row = table.row_sets != message_table.NO_ROW_SET
        row_sets = np.where(is_row, set_codes[table.row_sets], message_table.NO_ROW_SET)
        self._pages.append(
            MessageColumns(
                np.full(len(is_row), chunk, np.int64),
                *(ms, seq, table.positions, table.kinds, table.channels, table.times_ns, table.steps_ns),
                table.samples,
                [],
                self._type_codes(table, is_row),
                [],
                row_sets,
            )
        )

    def _type_codes(self, table: message_table.MessageTable, is_row: Bools) -> I64:
        single = [self._type_code(one.type.value) for one in self._layouts.layouts]
        codes = np.array(single, np.int64)[self._layouts.codes(table.channels.astype(np.uint32))]
        if table.sets:
            of_sets = []
            for channels in table.sets:
                types = [self._layouts.layout(channel).type.value for channel in channels or (0,)]
                of_sets.append(self._type_code(types[0] if len(set(types)) == 1 else ",".join(types)))
            codes = np.where(is_row, np.array(of_sets, np.int64)[table.row_sets], codes)
        return codes

    def _type_code(self, text: str) -> int:
        return self._types.setdefault(text, len(self._types))

    def drain(self) -> MessageColumns | None:
        """All messages so far, None where there are none."""
        pages, self._pages = self._pages, []
        if not pages:
            return None
        columns: list[Any] = [
            field if isinstance(field[0], list) else np.concatenate(field) for field in zip(*pages, strict=True)
        ]
        return MessageColumns(*columns)._replace(types=list(self._types), sets=list(self._sets))


def samples_table(samples: ArchivedSamples, identity: str, number: int, names: ChannelNames | None = None) -> pa.Table:
    """Samples with the columns of their session, and names and units as far as they are known."""
    count = len(samples.times_ns)
    arrays = (samples.channels, samples.times_ns, samples.values)
    return pa.Table.from_arrays(
        [
            *_session_arrays(identity, number, count),
            *map(pa.array, arrays),
            _decimals(samples),
            *(names or _NO_NAMES).dictionaries(samples.channels),
        ],
        schema=schema.SAMPLES,
    )


def _decimals(samples: ArchivedSamples) -> pa.Array:
    """Whole numbers of 64 bits as decimals of 128 bits: the lower word first, the upper one is the sign."""
    count = len(samples.times_ns)
    digits = schema.SAMPLES.field("integer").type
    if samples.integers is None:
        return _nulls(_rounded(count), digits).slice(0, count)
    words = np.empty((count, 2), np.int64)
    words[:, 0] = samples.integers.low.view(np.int64)
    words[:, 1] = -samples.integers.negative.astype(np.int64)
    valid = None
    if samples.has_integer is not None:
        valid = pa.py_buffer(np.packbits(samples.has_integer, bitorder="little"))
    return pa.Array.from_buffers(digits, count, [valid, pa.py_buffer(words)])


def messages_table(messages: MessageColumns, identity: str, number: int) -> pa.Table:
    """Messages with the columns of their session."""
    is_row = messages.row_sets >= 0
    sets = [",".join(map(str, channels)) for channels in messages.sets]
    return pa.Table.from_arrays(
        [
            *_session_arrays(identity, number, len(messages.kinds)),
            pa.array(messages.chunks, pa.int32()),
            pa.array(messages.entry_ms),
            pa.array(messages.entry_seq),
            pa.array(messages.positions, pa.int32()),
            _texts(messages.kinds, [kind.value for kind in message_table.KINDS]),
            pa.array(messages.channels, mask=is_row),
            pa.array(messages.times_ns),
            pa.array(messages.steps_ns),
            pa.array(messages.samples),
            _texts(messages.type_codes, messages.types),
            _texts(messages.row_sets, sets, is_null=~is_row),
        ],
        schema=schema.MESSAGES,
    )


def _texts(codes: Array, texts: Sequence[str], is_null: Bools | None = None) -> pa.DictionaryArray:
    indices = pa.array(codes.astype(np.int32), mask=is_null)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _session_arrays(identity: str, number: int, count: int) -> list[pa.Array]:
    return [column.slice(0, count) for column in _session_columns(identity, number, _rounded(count))]


@functools.lru_cache(maxsize=2)
def _session_columns(identity: str, number: int, count: int) -> list[pa.Array]:
    """Columns that name the session: the same for each chunk, and to make them takes longer than to write them."""
    names = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([identity]))
    return [names, pa.array(np.full(count, number, np.int64))]


@functools.lru_cache(maxsize=2)
def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


def _rounded(count: int) -> int:
    """How long a column of a constant is made, so that it serves for chunks of about the same length."""
    return -(-count // _CONSTANT_ROWS) * _CONSTANT_ROWS


def events_table(
    events: Sequence[data_pb2.Event], places: Sequence[tuple[str, int]], identity: str, number: int
) -> pa.Table:
    """Events with the columns of their session. `places`: the entry of each event, and its index in that burst."""
    session_arrays = [pa.array([identity] * len(events)), pa.array([number] * len(events), pa.int64())]
    ids = [entry_ids.parse(entry) for entry, _ in places]
    place_arrays = [
        pa.array([ms for ms, _ in ids], pa.uint64()),
        pa.array([seq for _, seq in ids], pa.uint64()),
        pa.array([position for _, position in places], pa.int32()),
    ]
    arrays = [*session_arrays, *read_batches.event_arrays(events), *place_arrays]
    return pa.Table.from_arrays(arrays, schema=schema.EVENTS)
