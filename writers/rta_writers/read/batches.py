"""Entries of a stream to Arrow batches: read some, decode, keep what was asked for."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import redis
import redis.exceptions

from rta_wire import entry_ids, errors, keys, session
from rta_wire.arrays import I64, Bools
from rta_wire.codec import columns, decode, sample_columns
from rta_wire.codec import layout as codec_layout
from rta_wire.pb import data_pb2
from rta_wire.stream import cursor
from rta_writers.connection import redis_client, retry
from rta_writers.options import read as options_read
from rta_writers.read import plan, stream

ENTRIES_PER_READ: Final = 128
BATCH_ROWS: Final = 262_144

SESSION: Final = "session"
STREAM_SESSION_ID: Final = "stream_session_id"

_VALUE_TYPES: Final = {
    codec_layout.SampleType.DOUBLE: pa.float64(),
    codec_layout.SampleType.FLOAT: pa.float32(),
    codec_layout.SampleType.INT8: pa.int8(),
    codec_layout.SampleType.INT16: pa.int16(),
    codec_layout.SampleType.INT32: pa.int32(),
    codec_layout.SampleType.INT64: pa.int64(),
    codec_layout.SampleType.UINT8: pa.int16(),
    codec_layout.SampleType.UINT16: pa.int32(),
    codec_layout.SampleType.UINT32: pa.int64(),
    codec_layout.SampleType.UINT64: pa.decimal128(20, 0),
}
"""Spark has no unsigned types."""

SessionColumns = Callable[[int], list[pa.Array]]
"""The columns that are the same in so many rows."""


class RowFilter(msgspec.Struct, frozen=True):
    """Which rows are wanted; None where it does not matter. Times are inclusive."""

    start_ns: int | None = None
    end_ns: int | None = None
    channels: frozenset[int] | None = None
    sessions: frozenset[str] | None = None
    stream_session_ids: frozenset[int] | None = None

    def has_session(self, number: int, identity: str | None) -> bool:
        """Whether a session is wanted."""
        return (self.stream_session_ids is None or number in self.stream_session_ids) and (
            self.sessions is None or (identity is not None and identity in self.sessions)
        )

    def time_mask(self, times_ns: I64) -> Bools | None:
        kept: Bools | None = None
        if self.start_ns is not None:
            kept = times_ns >= self.start_ns
        if self.end_ns is not None:
            before = times_ns <= self.end_ns
            kept = before if kept is None else kept & before
        return kept


def value_type(layouts: codec_layout.Plan) -> pa.DataType:
    """The type that holds the samples of all channels: their own where they have one, else double."""
    types = {layout.type for layout in layouts.layouts}
    return _VALUE_TYPES[types.pop()] if len(types) == 1 else pa.float64()


def schema(options: options_read.ReadOptions) -> pa.Schema:
    """The columns that a read gives."""
    first = [(SESSION, pa.string()), (STREAM_SESSION_ID, pa.int64())]
    if options.form is options_read.ReadForm.EVENTS:
        return pa.schema(
            [
                *first,
                ("event_definition_id", pa.int32()),
                ("time", pa.int64()),
                ("app_name", pa.string()),
                ("status_text", pa.string()),
                ("raw_data", pa.list_(pa.field("element", pa.float64()))),
            ]
        )
    if options.form is options_read.ReadForm.ENTRIES:
        return pa.schema([*first, ("entry", pa.string()), ("data", pa.binary())])
    return pa.schema([*first, ("channel", pa.int64()), ("time", pa.int64()), ("value", value_type(options.layouts))])


def read_batches(
    options: options_read.ReadOptions, where: plan.EntryRange, bounds: RowFilter
) -> Iterator[pa.RecordBatch]:
    """All rows of a range, session by session within each part of it."""
    names = dict(where.identities)
    with redis_client.connect(options.redis_url) as client:
        for found in _parts(client, options, where):
            by_number: dict[int, list[cursor.StreamEntry]] = {}
            for entry in found:
                by_number.setdefault(entry.stream_session_id, []).append(entry)
            for number, some in by_number.items():
                if options.session is not None and number not in where.identities:
                    continue
                if bounds.stream_session_ids is not None and number not in bounds.stream_session_ids:
                    continue
                if options.form is options_read.ReadForm.ENTRIES:
                    if bounds.has_session(number, names.get(number)):
                        yield _whole(some, schema(options), _session_of(names.get(number), number))
                    continue
                decoded = decode.entries(some, options.layouts, framing=options.framing)
                _learn(names, number, decoded)
                if bounds.has_session(number, names.get(number)):
                    yield from _rows(options, decoded, bounds, number, names.get(number))


def _parts(
    client: redis.Redis, options: options_read.ReadOptions, where: plan.EntryRange
) -> Iterator[list[cursor.StreamEntry]]:
    position = where.after
    while True:
        part = (where.stream, position, where.until)
        try:
            raw, now, is_last = stream.read_entries(client, options.names, part, ENTRIES_PER_READ)
        except (*retry.REDIS_ERRORS, redis.exceptions.ResponseError) as error:
            raise retry.to_rta_error(options.redis_url, error) from error
        _check_trim(options, where, position, now)
        for first in range(0, len(raw), ENTRIES_PER_READ):
            yield [_entry(entry_id, fields) for entry_id, fields in raw[first : first + ENTRIES_PER_READ]]
        if is_last:
            return
        position = raw[-1][0]


def _check_trim(options: options_read.ReadOptions, where: plan.EntryRange, position: str, now: plan.Counters) -> None:
    """The trimmer may overtake a task that was planned before."""
    first_id = now.first_after(position)
    overtaken = first_id is None or entry_ids.parse(first_id) > entry_ids.parse(position)
    if overtaken and (not now.added or now.removed > where.removed):
        plan.report_gap(options, where.stream, position, None)


def _entry(entry_id: str, fields: Any) -> cursor.StreamEntry:
    try:
        return cursor.StreamEntry(entry_id, int(fields[keys.ENTRY_ID]), fields[keys.ENTRY_DATA])
    except (KeyError, ValueError) as error:
        raise errors.BadBurst(reason=f"entry {entry_id} is not one of a session: {error!r}", entry=entry_id) from error


def _learn(names: dict[int, str], number: int, decoded: decode.DecodedBursts) -> None:
    for document in decoded.session_json:
        names.setdefault(number, session.identity_in(document))


def _rows(
    options: options_read.ReadOptions,
    decoded: decode.DecodedBursts,
    bounds: RowFilter,
    number: int,
    identity: str | None,
) -> Iterator[pa.RecordBatch]:
    wanted = schema(options)
    if options.form is options_read.ReadForm.EVENTS:
        yield from _events(decoded.events, wanted, bounds, _session_of(identity, number))
        return
    for kind, some in decoded.samples.items():
        yield from _samples(some, kind, wanted, bounds, _session_of(identity, number))


def _whole(found: list[cursor.StreamEntry], wanted: pa.Schema, session: SessionColumns) -> pa.RecordBatch:
    """Entries as they stand in the stream."""
    ids, data = pa.array([one.id for one in found], pa.string()), pa.array([one.data for one in found], pa.binary())
    return pa.RecordBatch.from_arrays([*session(len(found)), ids, data], schema=wanted)


def _samples(
    found: sample_columns.SampleColumns,
    kind: codec_layout.SampleType,
    wanted: pa.Schema,
    bounds: RowFilter,
    session: SessionColumns,
) -> Iterator[pa.RecordBatch]:
    channels, times, values = found.rows(), found.times_ns, found.values
    kept = bounds.time_mask(times)
    if bounds.channels is not None:
        among = np.isin(channels, np.fromiter(bounds.channels, np.int64))
        kept = among if kept is None else kept & among
    if kept is not None:
        channels, times, values = channels[kept], times[kept], values[kept]
    target = wanted.field("value").type
    if target == pa.float64() and kind is not codec_layout.SampleType.DOUBLE:
        values = columns.cast_samples(values, codec_layout.SampleType.DOUBLE)
    column = pa.array(values)
    if column.type != target:
        column = column.cast(target)
    for first in range(0, len(times), BATCH_ROWS):
        part = slice(first, first + BATCH_ROWS)
        count = len(times[part])
        yield pa.RecordBatch.from_arrays(
            [
                *session(count),
                pa.array(channels[part].astype(np.int64)),
                pa.array(times[part]),
                column[part],
            ],
            schema=wanted,
        )


def _events(
    found: list[data_pb2.Event], wanted: pa.Schema, bounds: RowFilter, session: SessionColumns
) -> Iterator[pa.RecordBatch]:
    times = np.fromiter((one.timestamp for one in found), np.int64, len(found))
    kept = bounds.time_mask(times)
    if kept is not None:
        found = [one for one, keep in zip(found, kept.tolist(), strict=True) if keep]
    if found:
        yield pa.RecordBatch.from_arrays(
            [
                *session(len(found)),
                pa.array([one.event_definition_id for one in found], pa.int32()),
                pa.array([one.timestamp for one in found], pa.int64()),
                pa.array([one.app_name for one in found], pa.string()),
                pa.array([one.status_text for one in found], pa.string()),
                pa.array([list(one.raw_data) for one in found], wanted.field("raw_data").type),
            ],
            schema=wanted,
        )


def _session_of(identity: str | None, number: int) -> SessionColumns:
    def columns_of(count: int) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(identity, pa.string()), count), pa.repeat(pa.scalar(number, pa.int64()), count)]

    return columns_of
