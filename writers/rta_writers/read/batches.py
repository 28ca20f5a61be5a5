"""Entries of a stream to Arrow batches: read, decoded, filtered."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import redis

from rta_wire import entry_ids, errors, keys, session
from rta_wire.arrays import I64, Bools
from rta_wire.codec import columns, decode
from rta_wire.codec.layout import Plan, SampleType
from rta_wire.codec.sample_columns import SampleColumns
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.connection import redis_client, retry
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import plan, stream

ENTRIES_PER_READ: Final = 128
BATCH_ROWS: Final = 262_144

SESSION: Final = "session"
STREAM_SESSION_ID: Final = "stream_session_id"
RAW_DATA_TYPE: Final = pa.list_(pa.field("element", pa.float64()))

_VALUE_TYPES: Final = {
    SampleType.DOUBLE: pa.float64(),
    SampleType.FLOAT: pa.float32(),
    SampleType.INT8: pa.int8(),
    SampleType.INT16: pa.int16(),
    SampleType.INT32: pa.int32(),
    SampleType.INT64: pa.int64(),
    SampleType.UINT8: pa.int16(),
    SampleType.UINT16: pa.int32(),
    SampleType.UINT32: pa.int64(),
    SampleType.UINT64: pa.decimal128(20, 0),
}
"""The type of a column of values. Spark has no unsigned types."""

SessionColumns = Callable[[int], list[pa.Array]]
"""Gives the columns that name the session, for a number of rows."""


class RowFilter(msgspec.Struct, frozen=True):
    """Which rows to read; a field that is None allows all. Times are inclusive."""

    start_ns: int | None = None
    end_ns: int | None = None
    channels: frozenset[int] | None = None
    sessions: frozenset[str] | None = None
    stream_session_ids: frozenset[int] | None = None

    def has_session(self, number: int, identity: str | None) -> bool:
        """Whether rows of a session are wanted. Its name may be unknown."""
        return (self.stream_session_ids is None or number in self.stream_session_ids) and (
            self.sessions is None or (identity is not None and identity in self.sessions)
        )

    def time_mask(self, times_ns: I64) -> Bools | None:
        """Which of these times are wanted, None where all are."""
        mask: Bools | None = None
        if self.start_ns is not None:
            mask = times_ns >= self.start_ns
        if self.end_ns is not None:
            until_end = times_ns <= self.end_ns
            mask = until_end if mask is None else mask & until_end
        return mask


def schema(options: ReadOptions) -> pa.Schema:
    """The columns that a read gives."""
    session_fields = [(SESSION, pa.string()), (STREAM_SESSION_ID, pa.int64())]
    if options.form is ReadForm.EVENTS:
        return pa.schema(
            [
                *session_fields,
                ("event_definition_id", pa.int32()),
                ("time", pa.int64()),
                ("app_name", pa.string()),
                ("status_text", pa.string()),
                ("raw_data", RAW_DATA_TYPE),
            ]
        )
    if options.form is ReadForm.ENTRIES:
        return pa.schema([*session_fields, ("entry", pa.string()), ("data", pa.binary())])
    value_type = _value_type(options.layouts)
    return pa.schema([*session_fields, ("channel", pa.int64()), ("time", pa.int64()), ("value", value_type)])


def _value_type(layouts: Plan) -> pa.DataType:
    """The type that holds the samples of all channels: their own where all have the same, else double."""
    types = {layout.type for layout in layouts.layouts}
    return _VALUE_TYPES[types.pop()] if len(types) == 1 else pa.float64()


def read_batches(options: ReadOptions, entry_range: plan.EntryRange, row_filter: RowFilter) -> Iterator[pa.RecordBatch]:
    """All rows of a range, session by session within each page of entries."""
    identities = dict(entry_range.identities)
    read_schema = schema(options)
    with redis_client.connect(options.redis_url) as client:
        for page in _read_pages(client, options, entry_range):
            by_session: dict[int, list[StreamEntry]] = {}
            for entry in page:
                by_session.setdefault(entry.stream_session_id, []).append(entry)
            for number, entries in by_session.items():
                if options.session is not None and number not in entry_range.identities:
                    continue
                if row_filter.stream_session_ids is not None and number not in row_filter.stream_session_ids:
                    continue
                if options.form is ReadForm.ENTRIES:
                    if row_filter.has_session(number, identities.get(number)):
                        yield _entry_batch(entries, read_schema, _session_columns(identities.get(number), number))
                    continue
                decoded = decode.entries(entries, options.layouts, framing=options.framing)
                for document in decoded.session_json:
                    identities.setdefault(number, session.identity_in(document))
                if row_filter.has_session(number, identities.get(number)):
                    of_session = _session_columns(identities.get(number), number)
                    yield from _decoded_batches(options.form, decoded, read_schema, row_filter, of_session)


def _read_pages(client: redis.Redis, options: ReadOptions, entry_range: plan.EntryRange) -> Iterator[list[StreamEntry]]:
    after = entry_range.after
    while True:
        where = (entry_range.stream, after, entry_range.until)
        try:
            entries, counters, is_last = stream.read_entries(client, options.names, where, ENTRIES_PER_READ)
        except retry.REDIS_ERRORS as error:
            raise retry.to_rta_error(options.redis_url, error) from error
        _check_trim(options, entry_range, after, counters)
        for first in range(0, len(entries), ENTRIES_PER_READ):
            yield [_parse_entry(entry_id, fields) for entry_id, fields in entries[first : first + ENTRIES_PER_READ]]
        if is_last:
            return
        after = entries[-1][0]


def _check_trim(options: ReadOptions, entry_range: plan.EntryRange, after: str, counters: StreamCounters) -> None:
    """Report entries that were trimmed after the read was planned and before they could be read."""
    first_id = counters.first_after(after)
    is_overtaken = first_id is None or entry_ids.is_after(first_id, after)
    if is_overtaken and (not counters.added or counters.removed > entry_range.removed):
        plan.report_gap(options, entry_range.stream, after, None)


def _parse_entry(entry_id: str, fields: Any) -> StreamEntry:
    try:
        return StreamEntry(entry_id, int(fields[keys.ENTRY_ID]), fields[keys.ENTRY_DATA])
    except (KeyError, ValueError) as error:
        raise errors.BadBurst(reason=f"entry {entry_id} is not one of a session: {error!r}", entry=entry_id) from error


def _session_columns(identity: str | None, number: int) -> SessionColumns:
    def columns_of(rows: int) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(identity, pa.string()), rows), pa.repeat(pa.scalar(number, pa.int64()), rows)]

    return columns_of


def _entry_batch(entries: Sequence[StreamEntry], read_schema: pa.Schema, of_session: SessionColumns) -> pa.RecordBatch:
    """Entries as they are in the stream."""
    ids = pa.array([entry.id for entry in entries], pa.string())
    data = pa.array([entry.data for entry in entries], pa.binary())
    return pa.RecordBatch.from_arrays([*of_session(len(entries)), ids, data], schema=read_schema)


def _decoded_batches(
    form: ReadForm,
    decoded: decode.DecodedBursts,
    read_schema: pa.Schema,
    row_filter: RowFilter,
    of_session: SessionColumns,
) -> Iterator[pa.RecordBatch]:
    if form is ReadForm.EVENTS:
        yield from _event_batches(decoded.events, read_schema, row_filter, of_session)
        return
    for sample_type, samples in decoded.samples.items():
        yield from _sample_batches(sample_type, samples, read_schema, row_filter, of_session)


def _sample_batches(
    sample_type: SampleType,
    samples: SampleColumns,
    read_schema: pa.Schema,
    row_filter: RowFilter,
    of_session: SessionColumns,
) -> Iterator[pa.RecordBatch]:
    channels, times, values = samples.rows(), samples.times_ns, samples.values
    mask = row_filter.time_mask(times)
    if row_filter.channels is not None:
        of_channels = np.isin(channels, np.fromiter(row_filter.channels, np.int64))
        mask = of_channels if mask is None else mask & of_channels
    if mask is not None:
        channels, times, values = channels[mask], times[mask], values[mask]
    value_type = read_schema.field("value").type
    if value_type == pa.float64() and sample_type is not SampleType.DOUBLE:
        values = columns.cast_samples(values, SampleType.DOUBLE)
    value_column = pa.array(values)
    if value_column.type != value_type:
        value_column = value_column.cast(value_type)
    for first in range(0, len(times), BATCH_ROWS):
        rows = slice(first, first + BATCH_ROWS)
        yield pa.RecordBatch.from_arrays(
            [
                *of_session(len(times[rows])),
                pa.array(channels[rows].astype(np.int64)),
                pa.array(times[rows]),
                value_column[rows],
            ],
            schema=read_schema,
        )


def _event_batches(
    events: Sequence[data_pb2.Event], read_schema: pa.Schema, row_filter: RowFilter, of_session: SessionColumns
) -> Iterator[pa.RecordBatch]:
    mask = row_filter.time_mask(np.fromiter((event.timestamp for event in events), np.int64, len(events)))
    if mask is not None:
        events = [event for event, is_wanted in zip(events, mask.tolist(), strict=True) if is_wanted]
    if events:
        arrays = [*of_session(len(events)), *event_arrays(events)]
        yield pa.RecordBatch.from_arrays(arrays, schema=read_schema)


def event_arrays(events: Sequence[data_pb2.Event]) -> list[pa.Array]:
    """Columns of events: definition id, time, app name, status text, raw data."""
    return [
        pa.array([event.event_definition_id for event in events], pa.int32()),
        pa.array([event.timestamp for event in events], pa.int64()),
        pa.array([event.app_name for event in events], pa.string()),
        pa.array([event.status_text for event in events], pa.string()),
        pa.array([list(event.raw_data) for event in events], RAW_DATA_TYPE),
    ]
