"""What many bursts hold: gathers the fields of their messages, accounts for every byte, and hands on to `series`."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout, sample_columns
from rta_wire.codec.protobuf import field_sizes
from rta_wire.pb import data_pb2, scan_pb2, stream_pb2


class DecodedBursts(msgspec.Struct, frozen=True):
    """What bursts hold, in the order in which it came within each kind. Types without samples are left out."""

    samples: dict[layout.SampleType, sample_columns.SampleColumns]
    events: list[data_pb2.Event]
    session_json: list[str]
    time_ranges_ns: list[tuple[int, int]]


class _Gathered:
    """Fields of all messages, side by side."""

    def __init__(self) -> None:
        self.timestamped: list[tuple[int, int, int, int, bytes, bytes]] = []
        self.periodic: list[tuple[int, int, int, int, int, bytes]] = []
        self.rows: list[tuple[int, int, bytes, bytes]] = []
        self.events: list[tuple[int, bytes]] = []
        self.ranges: list[tuple[int, bytes]] = []
        self.json: list[str] = []
        self.empty = 0

    def raw_bytes(self) -> int:
        """What protobuf would write for all this. Any other way to write it is longer."""
        bodies = [np.array([len(data) for _, data in self.events + self.ranges], np.int64)]
        bodies.append(np.array([len(text.encode()) for text in self.json], np.int64))
        if self.timestamped:
            _, channels, starts, scales, deltas, buffers = zip(*self.timestamped, strict=True)
            bodies.append(
                field_sizes.varints(channels)
                + field_sizes.fixed64s(starts)
                + field_sizes.varints(scales)
                + field_sizes.byte_strings(deltas)
                + field_sizes.byte_strings(buffers)
            )
        if self.periodic:
            _, channels, starts, intervals, counts, buffers = zip(*self.periodic, strict=True)
            numbers = field_sizes.varints(channels) + field_sizes.varints(intervals) + field_sizes.varints(counts)
            bodies.append(field_sizes.fixed64s(starts) + numbers + field_sizes.byte_strings(buffers))
        if self.rows:
            _, times, ids, buffers = zip(*self.rows, strict=True)
            bodies.append(
                field_sizes.byte_strings(ids) + field_sizes.fixed64s(times) + field_sizes.byte_strings(buffers)
            )
        return (
            int(field_sizes.length_delimited(field_sizes.length_delimited(np.concatenate(bodies))).sum())
            + 2 * self.empty
        )

    def add(self, burst: int, items: Iterable[scan_pb2.Item]) -> None:
        """Takes all messages of a burst."""
        for item in items:
            kind = item.WhichOneof("data")
            if kind == "timestamped_data":
                one = item.timestamped_data
                deltas, buffer = one.timestamp_deltas, one.buffer
                scale = one.timestamp_deltas_scale
                self.timestamped.append((burst, one.channel_id, one.start_timestamp, scale, deltas, buffer))
            else:
                self._add_rare(burst, kind, item)

    def _add_rare(self, burst: int, kind: str | None, item: scan_pb2.Item) -> None:
        if kind == "periodic_data":
            even = item.periodic_data
            self.periodic.append(
                (burst, even.channel_id, even.start_timestamp, even.interval, even.samples, even.buffer)
            )
        elif kind == "row_data":
            row = item.row_data
            self.rows.append((burst, row.timestamp, row.channel_ids, row.buffer))
        elif kind == "event":
            self.events.append((burst, item.event))
        elif kind == "time_range":
            self.ranges.append((burst, item.time_range))
        elif kind == "session_json":
            self.json.append(item.session_json)
        else:
            self.empty += 1


def scan_fields(
    bursts: Iterable[Iterable[scan_pb2.Item]], labels: Sequence[str], layouts: layout.Plan, raw_bytes: int
) -> DecodedBursts:
    """Columns of all messages, or `series.Unusual` where the messages do not add up to `raw_bytes`."""
    found = _Gathered()
    for index, items in enumerate(bursts):
        found.add(index, items)
    if found.raw_bytes() != raw_bytes:
        raise sample_columns.NonCanonicalBurst
    parts: list[tuple[layout.SampleType, sample_columns.SampleColumns]] = []
    if found.timestamped:
        parts += sample_columns.decode_timestamped(found.timestamped, labels, layouts)
    if found.periodic:
        parts += sample_columns.decode_periodic(found.periodic, labels, layouts)
    if found.rows:
        parts += sample_columns.decode_rows(found.rows, labels, layouts)
    by_type: dict[layout.SampleType, list[sample_columns.SampleColumns]] = {}
    for kind, part in parts:
        by_type.setdefault(kind, []).append(part)
    ranges = [_parsed(stream_pb2.StreamTimeRange, data, labels[burst]) for burst, data in found.ranges]
    return DecodedBursts(
        samples={kind: sample_columns.join(some) for kind, some in by_type.items()},
        events=[_parsed(data_pb2.Event, data, labels[burst]) for burst, data in found.events],
        session_json=found.json,
        time_ranges_ns=[(one.start_time, one.end_time) for one in ranges],
    )


_Parsed = TypeVar("_Parsed", data_pb2.Event, stream_pb2.StreamTimeRange)


def _parsed(cls: type[_Parsed], data: bytes, label: str) -> _Parsed:
    try:
        return cls.FromString(data)
    except DecodeError as error:
        raise codec_burst.bad_burst(label, f"not a message of type {cls.DESCRIPTOR.name}: {error}") from error
