"""Decodes the content of many bursts: gathers the fields of their messages, checks that they account for every byte,
and has `sample_columns` decode them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from rta_wire.arrays import I64
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout
from rta_wire.codec.protobuf import field_sizes
from rta_wire.codec.scan import sample_columns, timestamped_fields
from rta_wire.codec.scan.timestamped_fields import TimestampedFields
from rta_wire.pb import data_pb2, scan_pb2, stream_pb2


class DecodedBursts(msgspec.Struct, frozen=True):
    """The content of bursts, in order within each kind. `samples` has only types that have samples."""

    samples: dict[layout.SampleType, sample_columns.SampleColumns]
    events: list[data_pb2.Event]
    session_json: list[str]
    time_ranges_ns: list[tuple[int, int]]


class MessageFields:
    """Fields of the messages of many bursts, by kind of message. Each begins with the index of its burst.

    Lists that end in `_at` have the index of each message in its burst.
    """

    def __init__(self) -> None:
        self.periodic_at: list[int] = []
        self.rows_at: list[int] = []
        self.events_at: list[int] = []
        self.timestamped = timestamped_fields.EMPTY
        self.periodic: list[tuple[int, int, int, int, int, bytes]] = []
        self.rows: list[tuple[int, int, bytes, bytes]] = []
        self.events: list[tuple[int, bytes]] = []
        self.time_ranges: list[tuple[int, bytes]] = []
        self.session_json: list[str] = []
        self.empty_items = 0

    def raw_bytes(self) -> int:
        """Bytes that protobuf would write for all messages. Any other legal encoding of them is longer."""
        bodies = [np.array([len(data) for _, data in self.events + self.time_ranges], np.int64)]
        bodies.append(np.array([len(document.encode()) for document in self.session_json], np.int64))
        if len(self.timestamped.bursts):
            bodies.append(
                field_sizes.varints(self.timestamped.channels)
                + field_sizes.fixed64s(self.timestamped.start_ns)
                + field_sizes.varints(self.timestamped.scales)
                + field_sizes.byte_strings(self.timestamped.delta_sizes)
                + field_sizes.byte_strings(self.timestamped.buffer_sizes)
            )
        if self.periodic:
            _, channels, starts, intervals, counts, buffers = zip(*self.periodic, strict=True)
            numbers = field_sizes.varints(channels) + field_sizes.varints(intervals) + field_sizes.varints(counts)
            bodies.append(field_sizes.fixed64s(starts) + numbers + field_sizes.byte_strings(_lengths(buffers)))
        if self.rows:
            _, times, ids, buffers = zip(*self.rows, strict=True)
            ids_and_buffers = field_sizes.byte_strings(_lengths(ids)) + field_sizes.byte_strings(_lengths(buffers))
            bodies.append(ids_and_buffers + field_sizes.fixed64s(times))
        return (
            int(field_sizes.length_delimited(field_sizes.length_delimited(np.concatenate(bodies))).sum())
            + 2 * self.empty_items
        )

    def gather(self, bursts: Iterable[tuple[int, Iterable[scan_pb2.Item]]]) -> None:
        """Takes the messages of bursts, by the index of each."""
        collector = timestamped_fields.FieldCollector()
        for burst, items in bursts:
            self._add(burst, items, collector)
        self.timestamped = collector.fields()

    def _add(self, burst: int, items: Iterable[scan_pb2.Item], collector: timestamped_fields.FieldCollector) -> None:
        for position, item in enumerate(items):
            kind = item.WhichOneof("data")
            if kind == "timestamped_data":
                message = item.timestamped_data
                collector.bursts.append(burst)
                collector.positions.append(position)
                collector.channels.append(message.channel_id)
                collector.start_ns.append(message.start_timestamp)
                collector.scales.append(message.timestamp_deltas_scale)
                collector.deltas.append(message.timestamp_deltas)
                collector.buffers.append(message.buffer)
            else:
                self._add_rare(burst, position, kind, item)

    def _add_rare(self, burst: int, position: int, kind: str | None, item: scan_pb2.Item) -> None:
        if kind == "periodic_data":
            self.periodic_at.append(position)
            series = item.periodic_data
            self.periodic.append(
                (burst, series.channel_id, series.start_timestamp, series.interval, series.samples, series.buffer)
            )
        elif kind == "row_data":
            row = item.row_data
            self.rows_at.append(position)
            self.rows.append((burst, row.timestamp, row.channel_ids, row.buffer))
        elif kind == "event":
            self.events.append((burst, item.event))
            self.events_at.append(position)
        elif kind == "time_range":
            self.time_ranges.append((burst, item.time_range))
        elif kind == "session_json":
            self.session_json.append(item.session_json)
        else:
            self.empty_items += 1


class DecodedMessages(msgspec.Struct, frozen=True):
    """The content of bursts with all that is needed to write the same messages again."""

    samples: list[tuple[layout.Kind, layout.SampleType, sample_columns.SampleColumns]]
    """In the order of the stream within each kind and type."""
    fields: MessageFields
    """What else messages with samples say."""
    events: list[data_pb2.Event]
    event_places: list[tuple[int, int]]
    """For each event the index of its burst, and its own in that burst."""


class ParsedBursts(msgspec.Struct, frozen=True):
    """Bursts that are to be decoded."""

    alike: TimestampedFields
    """The messages of those that `alike_bursts` reads."""
    others: Iterable[tuple[int, Iterable[scan_pb2.Item]]]
    """The index and the messages of each of the others, parsed one after another."""
    others_bytes: int
    """The size of those."""


def scan_fields(bursts: ParsedBursts, labels: Sequence[str], layouts: layout.Plan) -> DecodedBursts:
    """The content of all messages. Raises NonCanonicalBurst where protobuf would write other bytes."""
    fields = _gather(bursts)
    by_type: dict[layout.SampleType, list[sample_columns.SampleColumns]] = {}
    for _, sample_type, columns in _decode_samples(fields, labels, layouts):
        by_type.setdefault(sample_type, []).append(columns)
    return _decoded(fields, labels, by_type)


def scan_without_samples(
    bursts: ParsedBursts,
    labels: Sequence[str],
    layouts: layout.Plan,  # noqa: ARG001 - of `scan_fields`
) -> DecodedBursts:
    """The content of all other messages. How samples are stored need not be known. Raises as `scan_fields` does."""
    return _decoded(_gather(bursts), labels, {})


def _decoded(
    fields: MessageFields,
    labels: Sequence[str],
    by_type: Mapping[layout.SampleType, list[sample_columns.SampleColumns]],
) -> DecodedBursts:
    ranges = [_parse(stream_pb2.StreamTimeRange, data, labels[burst]) for burst, data in fields.time_ranges]
    return DecodedBursts(
        samples={sample_type: sample_columns.join(columns) for sample_type, columns in by_type.items()},
        events=_decode_events(fields, labels),
        session_json=fields.session_json,
        time_ranges_ns=[(time_range.start_time, time_range.end_time) for time_range in ranges],
    )


def scan_messages(bursts: ParsedBursts, labels: Sequence[str], layouts: layout.Plan) -> DecodedMessages:
    """The samples and events of all messages, and what else the messages say. Raises as `scan_fields` does."""
    fields = _gather(bursts)
    return DecodedMessages(
        samples=list(_decode_samples(fields, labels, layouts)),
        fields=fields,
        events=_decode_events(fields, labels),
        event_places=[(burst, at) for (burst, _), at in zip(fields.events, fields.events_at, strict=True)],
    )


def _gather(bursts: ParsedBursts) -> MessageFields:
    fields = MessageFields()
    fields.gather(bursts.others)
    if fields.raw_bytes() != bursts.others_bytes:
        raise sample_columns.NonCanonicalBurst
    fields.timestamped = timestamped_fields.join([bursts.alike, fields.timestamped])
    return fields


def _lengths(values: Sequence[bytes]) -> I64:
    return np.fromiter(map(len, values), np.int64, len(values))


def _decode_samples(
    fields: MessageFields, labels: Sequence[str], layouts: layout.Plan
) -> Iterator[tuple[layout.Kind, layout.SampleType, sample_columns.SampleColumns]]:
    if len(fields.timestamped.bursts):
        for sample_type, columns in sample_columns.decode_timestamped(fields.timestamped, labels, layouts):
            yield layout.Kind.TIMESTAMPED, sample_type, columns
    if fields.periodic:
        for sample_type, columns in sample_columns.decode_periodic(fields.periodic, labels, layouts):
            yield layout.Kind.PERIODIC, sample_type, columns
    if fields.rows:
        for sample_type, columns in sample_columns.decode_rows(fields.rows, labels, layouts):
            yield layout.Kind.ROW, sample_type, columns


def _decode_events(fields: MessageFields, labels: Sequence[str]) -> list[data_pb2.Event]:
    return [_parse(data_pb2.Event, data, labels[burst]) for burst, data in fields.events]


_Parsed = TypeVar("_Parsed", data_pb2.Event, stream_pb2.StreamTimeRange)


def _parse(cls: type[_Parsed], data: bytes, label: str) -> _Parsed:
    try:
        return cls.FromString(data)
    except DecodeError as error:
        raise codec_burst.bad_burst(label, f"not a message of type {cls.DESCRIPTOR.name}: {error}") from error
