"""Entries of a stream to Arrow batches: read, decoded, filtered."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import redis

from rta_wire import entry_ids, errors, keys, session
from rta_wire.archive import schema as archive_schema
from rta_wire.archive import selection
from rta_wire.arrays import I64, Bools
from rta_wire.codec import decode
from rta_wire.codec.layout import Plan, SampleType
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.connection import redis_client, retry
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import plan, stream
from rta_writers.read.channels import ChannelNames, SessionBindings, TaskChannels

ENTRIES_PER_READ: Final = 128
BATCH_ROWS: Final = 262_144

SESSION: Final = "session"
STREAM_SESSION_ID: Final = "stream_session_id"
NAME: Final = "name"
UNIT: Final = "unit"

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
    names: frozenset[str] | None = None
    sessions: frozenset[str] | None = None
    stream_session_ids: frozenset[int] | None = None

    @property
    def of_samples(self) -> selection.SampleFilter:
        """The same without sessions, for files of one session."""
        return selection.SampleFilter(self.start_ns, self.end_ns, self.channels)

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
                ("raw_data", archive_schema.RAW_DATA_TYPE),
            ]
        )
    if options.form is ReadForm.ENTRIES:
        return pa.schema([*session_fields, ("entry", pa.string()), ("data", pa.binary())])
    fields = [*session_fields, ("channel", pa.int64()), ("time", pa.int64()), ("value", _value_type(options))]
    return pa.schema([*fields, (NAME, pa.string()), (UNIT, pa.string())] if options.has_names else fields)


def column_type(sample_type: SampleType) -> pa.DataType:
    """The type of a column with samples of one type."""
    return _VALUE_TYPES[sample_type]


def _value_type(options: ReadOptions) -> pa.DataType:
    """The type that holds the samples of all channels: their own where all have the same, else double."""
    types = options.sample_types or {layout.type for layout in options.layouts.layouts}
    return _VALUE_TYPES[next(iter(types))] if len(types) == 1 else pa.float64()


def read_batches(
    options: ReadOptions, entry_range: plan.EntryRange, row_filter: RowFilter, bindings: SessionBindings | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a range, session by session within each page of entries.

    `bindings`: the configurations of sessions by their numbers.
    """
    read_schema = schema(options)
    if options.form is ReadForm.ENTRIES:
        yield from _entry_batches(options, entry_range, row_filter, read_schema)
        return
    channels = TaskChannels(options, bindings or {}, entry_range.identities)
    for number, identity, decoded in read_decoded(options, entry_range, row_filter, channels):
        of_session = session_columns(identity, number)
        if options.form is ReadForm.EVENTS:
            yield from _event_batches(decoded.events, read_schema, row_filter, of_session)
            continue
        names = channels.names(number)
        for sample_type, samples in decoded.samples.items():
            yield from _sample_batches(sample_type, samples, read_schema, row_filter, (of_session, names))


def read_decoded(
    options: ReadOptions, entry_range: plan.EntryRange, row_filter: RowFilter, channels: TaskChannels
) -> Iterator[tuple[int, str | None, decode.DecodedBursts]]:
    """What the entries of a range hold: number, name and content of a session, for each in each page of entries."""
    identities = dict(entry_range.identities)
    for number, entries in _read_sessions(options, entry_range, row_filter):
        if options.form is ReadForm.EVENTS:
            decoded = decode.entries(entries, framing=options.framing, with_samples=False)
        else:
            decoded = _decode_samples(options, number, entries, channels)
        for document in decoded.session_json:
            identities.setdefault(number, session.identity_in(document))
        if row_filter.has_session(number, identities.get(number)):
            yield number, identities.get(number), decoded


def _decode_samples(
    options: ReadOptions, number: int, entries: list[StreamEntry], channels: TaskChannels
) -> decode.DecodedBursts:
    """The content of entries of a session, again where they say that its channels are others than was known."""
    try:
        decoded = decode.entries(entries, channels.layouts(number), framing=options.framing)
        if not channels.learn(number, decoded.session_json):
            return decoded
    except errors.BadBurst as error:
        if not channels.needs_json(number):
            raise _with_hint(options, error) from error
        documents = decode.entries(entries, framing=options.framing, with_samples=False).session_json
        if not channels.learn(number, documents):
            raise
    return decode.entries(entries, channels.layouts(number), framing=options.framing)


def _with_hint(options: ReadOptions, error: errors.BadBurst) -> errors.BadBurst:
    """The error, and where nothing says how samples are stored, what would."""
    if options.layouts != Plan() or options.has_names:
        return error
    of_stream = "option 'names' where sessions have a configuration, or " if options.session is None else ""
    hint = f"Samples are taken for doubles where nothing says what they are: {of_stream}option 'sampleType' does"
    return errors.BadBurst(**{**error.facts, "reason": f"{error.facts['reason']}. {hint}"})


def _entry_batches(
    options: ReadOptions, entry_range: plan.EntryRange, row_filter: RowFilter, read_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Entries as they are in the stream."""
    for number, entries in _read_sessions(options, entry_range, row_filter):
        identity = entry_range.identities.get(number)
        if row_filter.has_session(number, identity):
            yield _entry_batch(entries, read_schema, session_columns(identity, number))


def _read_sessions(
    options: ReadOptions, entry_range: plan.EntryRange, row_filter: RowFilter
) -> Iterator[tuple[int, list[StreamEntry]]]:
    """The entries of each session in each page that can be wanted."""
    with redis_client.connect(options.redis_url) as client:
        for page in read_pages(client, options, entry_range):
            by_session: dict[int, list[StreamEntry]] = {}
            for entry in page:
                by_session.setdefault(entry.stream_session_id, []).append(entry)
            for number, entries in by_session.items():
                if options.session is not None and number not in entry_range.identities:
                    continue
                if row_filter.stream_session_ids is None or number in row_filter.stream_session_ids:
                    yield number, entries


def read_pages(client: redis.Redis, options: ReadOptions, entry_range: plan.EntryRange) -> Iterator[list[StreamEntry]]:
    """The entries of a range, some at a time. Entries that were removed meanwhile are reported."""
    after = entry_range.after
    while True:
        where = (entry_range.stream, after, entry_range.until)
        read = functools.partial(stream.read_entries, client, options.names, where, ENTRIES_PER_READ)
        entries, counters, is_last = retry.ride_out(options.redis_url, read)
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


def session_columns(identity: str | None, number: int) -> SessionColumns:
    """Columns with the name and the id of a session."""

    def columns_of(rows: int) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(identity, pa.string()), rows), pa.repeat(pa.scalar(number, pa.int64()), rows)]

    return columns_of


def _entry_batch(entries: Sequence[StreamEntry], read_schema: pa.Schema, of_session: SessionColumns) -> pa.RecordBatch:
    """Entries as they are in the stream."""
    ids = pa.array([entry.id for entry in entries], pa.string())
    data = pa.array([entry.data for entry in entries], pa.binary())
    return pa.RecordBatch.from_arrays([*of_session(len(entries)), ids, data], schema=read_schema)


def _sample_batches(
    sample_type: SampleType,
    samples: SampleColumns,
    read_schema: pa.Schema,
    row_filter: RowFilter,
    named: tuple[SessionColumns, ChannelNames],
) -> Iterator[pa.RecordBatch]:
    of_session, names = named
    channels, times, values = samples.rows(), samples.times_ns, samples.values
    mask = row_filter.time_mask(times)
    wanted = row_filter.channels
    if row_filter.names is not None:
        of_names = names.ids_of(row_filter.names)
        wanted = of_names if wanted is None else wanted & of_names
    if wanted is not None:
        of_channels = np.isin(channels, np.fromiter(wanted, np.int64))
        mask = of_channels if mask is None else mask & of_channels
    if mask is not None:
        channels, times, values = channels[mask], times[mask], values[mask]
    value_type = read_schema.field("value").type
    if len(values) and value_type not in (pa.float64(), column_type(sample_type)):
        raise errors.Usage(
            reason=f"There are samples of type {sample_type.value}, and the column 'value' is {value_type}: a session "
            "has got other channels since the query began. Start it again, or say what they are by option 'sampleType'"
        )
    if value_type == pa.float64():
        values = values.astype(np.float64, copy=False)  # the nearest one, as files of the archive have it
    value_column = pa.array(values)
    if value_column.type != value_type:
        value_column = value_column.cast(value_type)
    has_names = NAME in read_schema.names
    for first in range(0, len(times), BATCH_ROWS):
        rows = slice(first, first + BATCH_ROWS)
        yield pa.RecordBatch.from_arrays(
            [
                *of_session(len(times[rows])),
                pa.array(channels[rows].astype(np.int64)),
                pa.array(times[rows]),
                value_column[rows],
                *(names.columns(channels[rows]) if has_names else ()),
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
        pa.array([list(event.raw_data) for event in events], archive_schema.RAW_DATA_TYPE),
    ]
