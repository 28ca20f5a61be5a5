"""From archived rows back to the messages that the stream had."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import content_digest, entry_ids
from rta_wire.archive import message_table
from rta_wire.archive import samples as archive_samples
from rta_wire.archive.samples import ArchivedSamples
from rta_wire.arrays import I64, U64, Array, Bools
from rta_wire.codec import layout
from rta_wire.pb import data_pb2, stream_pb2

_KIND_CODES = {kind.value: code for code, kind in enumerate(message_table.KINDS)}


class MessageColumns(NamedTuple):
    """Columns of a table of messages, in the order of the stream."""

    chunks: I64
    entry_ms: U64
    entry_seq: U64
    positions: I64
    kinds: Array
    channels: I64
    times_ns: I64
    steps_ns: I64
    samples: I64
    types: list[str]
    """The sample types of a message, indexed by `type_codes`."""
    type_codes: I64
    sets: list[tuple[int, ...]]
    row_sets: I64

    @classmethod
    def from_table(cls, table: pa.Table) -> "MessageColumns":
        """From the rows of a file with messages."""
        kinds, kind_codes = _dictionary(table, "kind")
        types, type_codes = _dictionary(table, "sample_type")
        sets, row_sets = _dictionary(table, "row_set")
        code_of = np.array([_KIND_CODES[kind] for kind in kinds], np.uint8)
        return cls(
            chunks=_numbers(table, "chunk"),
            entry_ms=_numbers(table, "entry_ms"),
            entry_seq=_numbers(table, "entry_seq"),
            positions=_numbers(table, "position"),
            kinds=code_of[kind_codes] if kinds else np.zeros(0, np.uint8),
            channels=_numbers(table, "channel"),
            times_ns=_numbers(table, "time"),
            steps_ns=_numbers(table, "step"),
            samples=_numbers(table, "samples"),
            types=types,
            type_codes=type_codes,
            sets=[_parse_set(text) for text in sets],
            row_sets=row_sets,
        )

    def where(self, mask: Bools) -> "MessageColumns":
        """Some of the messages."""
        return self._replace(
            **{name: column[mask] for name, column in self._asdict().items() if name not in ("types", "sets")}
        )

    def chunk(self, number: int) -> "MessageColumns":
        return self.where(self.chunks == number)

    def rows(self) -> I64:
        """For each row of their chunk the index of its message."""
        return archive_samples.rows_of_messages(self.kinds, self.channels, self.samples, self.row_sets, self.sets)

    def within(self, after: str, until: str) -> Bools:
        """Which messages are of entries after one id, up to and with another."""
        return ids_within(self.entry_ms, self.entry_seq, after, until)

    def digest(self) -> content_digest.Digest:
        """Of all messages; it does not depend on chunks."""
        texts = [
            f"{sample_type} {','.join(map(str, channels))}".encode()
            for sample_type in self.types
            for channels in [(), *self.sets]
        ]
        text_index = self.type_codes * (len(self.sets) + 1) + self.row_sets + 1
        columns = (
            self.entry_ms,
            self.entry_seq,
            self.positions,
            self.kinds,
            self.channels,
            self.times_ns,
            self.steps_ns,
            self.samples,
        )
        return content_digest.of_numbers([np.asarray(column) for column in columns], texts, text_index)


def ids_within(entry_ms: U64, entry_seq: U64, after: str, until: str) -> Bools:
    """Which entry ids are after one id, up to and with another."""
    (low_ms, low_seq), (high_ms, high_seq) = entry_ids.parse(after), entry_ids.parse(until)
    above = (entry_ms > low_ms) | ((entry_ms == low_ms) & (entry_seq > low_seq))
    below = (entry_ms < high_ms) | ((entry_ms == high_ms) & (entry_seq <= high_seq))
    return np.asarray(above & below, np.bool_)


def rebuild(messages: MessageColumns, rows: ArchivedSamples) -> Iterator[tuple[str, int, stream_pb2.StreamData]]:
    """The messages of one chunk as the stream had them: the id of the entry, the index in its burst, the message.

    `rows` are all rows of that chunk in the order of the file. Where the scale of deltas was 0, deltas come back as 0.
    """
    in_order = rows.take(np.argsort(messages.rows(), kind="stable"))
    ends = np.cumsum(messages.samples).tolist()
    for index, end in enumerate(ends):
        own = slice(end - int(messages.samples[index]), end)
        entry = entry_ids.format_id(int(messages.entry_ms[index]), int(messages.entry_seq[index]))
        part = in_order.take(np.arange(own.start, own.stop))
        yield entry, int(messages.positions[index]), _message(messages, index, part)


def _message(messages: MessageColumns, index: int, rows: ArchivedSamples) -> stream_pb2.StreamData:
    kind = message_table.KINDS[messages.kinds[index]]
    types = [layout.SampleType(name) for name in messages.types[messages.type_codes[index]].split(",")]
    start_ns, step_ns = int(messages.times_ns[index]), int(messages.steps_ns[index])
    if kind is layout.Kind.ROW:
        channels = messages.sets[messages.row_sets[index]]
        buffer = _row_buffer(channels, types, rows)
        return stream_pb2.StreamData(row_data=data_pb2.RowData(channel_ids=channels, timestamp=start_ns, buffer=buffer))
    channel, buffer = int(messages.channels[index]), rows.typed_values(types[0]).tobytes()
    if kind is layout.Kind.PERIODIC:
        count = len(rows.times_ns)
        return stream_pb2.StreamData(
            periodic_data=data_pb2.PeriodicData(
                channel_id=channel, start_timestamp=start_ns, interval=step_ns, samples=count, buffer=buffer
            )
        )
    deltas = np.diff(rows.times_ns, prepend=rows.times_ns[:1]) // (step_ns or 1)
    return stream_pb2.StreamData(
        timestamped_data=data_pb2.TimestampedData(
            channel_id=channel,
            start_timestamp=start_ns,
            timestamp_deltas_scale=step_ns,
            timestamp_deltas=deltas.tolist(),
            buffer=buffer,
        )
    )


def _row_buffer(channels: Sequence[int], types: Sequence[layout.SampleType], rows: ArchivedSamples) -> bytes:
    """The samples of a row in the order of its channels; in the file they are sorted by channel."""
    by_channel = np.argsort(np.array(channels, np.int64), kind="stable")
    all_types = list(types) * len(channels) if len(types) == 1 else types
    pieces = [b""] * len(channels)
    for row, position in enumerate(by_channel.tolist()):
        pieces[position] = rows.take(np.array([row])).typed_values(all_types[position]).tobytes()
    return b"".join(pieces)


def _numbers(table: pa.Table, name: str) -> Array:
    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy())


def _dictionary(table: pa.Table, name: str) -> tuple[list[str], I64]:
    """Texts, and for each row the index of its text, -1 for null."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return column.dictionary.to_pylist(), codes


def _parse_set(text: str) -> tuple[int, ...]:
    return tuple(int(channel) for channel in text.split(",")) if text else ()
