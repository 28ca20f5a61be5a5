"""Samples, envelopes and events as rows: an Arrow IPC stream, JSON lines or CSV, piece by piece. Pure."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from rta_supervisor.gateway.rest.data.data_request import DataForm
from rta_wire.arrays import I64, Array
from rta_wire.channels.model import ChannelList
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.chunks.envelope import EnvelopeSteps
from rta_wire.codec.layout import Plan, SampleType
from rta_wire.pb import data_pb2

TIME: Final = pa.timestamp("ns", "UTC")
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
EVENTS: Final = pa.schema(
    [
        pa.field("time", TIME),
        pa.field("event", pa.int32()),
        pa.field("application", pa.string()),
        pa.field("text", pa.string()),
        pa.field("data", pa.list_(pa.float64())),
    ]
)

pa.array([], pa.string())  # Arrow looks for pandas at its first array, which takes a while: not in the first request.


def value_type(selection: ChannelSelection, layouts: Plan) -> SampleType:
    """The type of the column of values: that of the channels where all have one, else double."""
    types = {layout.type for channel, layout in layouts.channels.items() if selection.has(channel)}
    return types.pop() if len(types) == 1 else SampleType.DOUBLE


class RowForm:
    """Turns tables of one schema into the bytes of a body."""

    def __init__(self, form: DataForm, schema: pa.Schema) -> None:
        self._form = form
        self.schema = schema
        self._sink = io.BytesIO()
        self._writer: Any = None

    def head(self) -> bytes:
        """What comes before the first row."""
        if self._form is DataForm.ARROW:
            self._writer = pa.ipc.new_stream(self._sink, self.schema)
            return self._take()
        if self._form is DataForm.CSV:
            return (",".join(self.schema.names) + "\r\n").encode()
        return b""

    def rows(self, table: pa.Table) -> bytes:
        """The bytes of some rows."""
        if self._form is DataForm.ARROW:
            self._writer.write_table(table)
            return self._take()
        if self._form is DataForm.CSV:
            sink = io.BytesIO()
            pa_csv.write_csv(_for_csv(table), sink, pa_csv.WriteOptions(include_header=False, quoting_style="needed"))
            return sink.getvalue()
        return _json_lines(table)

    def tail(self) -> bytes:
        """What comes after the last row."""
        if self._form is DataForm.ARROW:
            self._writer.close()
            return self._take()
        return b""

    def _take(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


class SampleRows:
    """Samples and envelopes of channels as tables, with names where they are known."""

    def __init__(self, channel_list: ChannelList) -> None:
        # One dictionary for the whole body: not every reader of Arrow takes another one halfway.
        self._names = pa.array([channel.name for channel in channel_list.channels], pa.string())
        self._places: Mapping[int, int] = {channel.id: at for at, channel in enumerate(channel_list.channels)}

    def sample_schema(self, sample_type: SampleType) -> pa.Schema:
        return self._schema([("value", pa.from_numpy_dtype(sample_type.dtype))])

    def envelope_schema(self) -> pa.Schema:
        return self._schema([(name, pa.float64()) for name in ("min", "max", "mean")] + [("samples", pa.int64())])

    def samples(self, channel: int, times_ns: I64, values: Array, sample_type: SampleType) -> pa.Table:
        return self._table(
            channel, times_ns, [values.astype(sample_type.dtype, copy=False)], self.sample_schema(sample_type)
        )

    def envelope(self, steps: EnvelopeSteps) -> pa.Table:
        columns = [steps.low, steps.high, steps.mean, steps.samples]
        return self._table(steps.channel, steps.times_ns, columns, self.envelope_schema())

    def _schema(self, values: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
        name = [("name", _NAME)] if self._places else []
        return pa.schema([("channel", pa.uint32()), *name, ("time", TIME), *values])

    def _table(self, channel: int, times_ns: I64, values: Sequence[Array], schema: pa.Schema) -> pa.Table:
        count = len(times_ns)
        columns: list[pa.Array] = [pa.array(np.full(count, channel, np.uint32))]
        if self._places:
            place = self._places.get(channel)
            indices = pa.nulls(count, pa.int32()) if place is None else pa.array(np.full(count, place, np.int32))
            columns.append(pa.DictionaryArray.from_arrays(indices, self._names))
        columns.append(pa.array(times_ns).cast(pa.timestamp("ns")).cast(TIME))
        columns += [pa.array(column) for column in values]
        return pa.Table.from_arrays(columns, schema=schema)


def event_table(events: Sequence[data_pb2.Event]) -> pa.Table:
    """Events as rows."""
    ordered = sorted(events, key=lambda event: (event.timestamp, event.SerializeToString(deterministic=True)))
    return pa.Table.from_arrays(
        [
            pa.array([event.timestamp for event in ordered], pa.int64()).cast(pa.timestamp("ns")).cast(TIME),
            pa.array([event.event_definition_id for event in ordered], pa.int32()),
            pa.array([event.app_name for event in ordered], pa.string()),
            pa.array([event.status_text for event in ordered], pa.string()),
            pa.array([list(event.raw_data) for event in ordered], pa.list_(pa.float64())),
        ],
        schema=EVENTS,
    )


def _for_csv(table: pa.Table) -> pa.Table:
    """Times as nanoseconds, texts as texts, lists with blanks between their values."""
    columns = []
    for field in table.schema:
        column = table.column(field.name)
        if field.type == TIME:
            column = column.cast(pa.int64())
        elif pa.types.is_dictionary(field.type):
            column = column.cast(pa.string())
        elif pa.types.is_list(field.type):
            column = pa.array([" ".join(map(repr, values)) for values in column.to_pylist()], pa.string())
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.schema.names)


_LINES_AT_ONCE: Final = 16_384
_encode_lines: Final = msgspec.json.Encoder().encode_lines


def _json_lines(table: pa.Table) -> bytes:
    """An object for each row. Times are nanoseconds; a value that JSON does not have, such as NaN, is null."""
    return b"".join(_encode_lines(rows) for rows in _json_rows(table))


def _json_rows(table: pa.Table) -> Iterator[list[dict[str, Any]]]:
    names = table.schema.names
    for batch in table.to_batches(max_chunksize=_LINES_AT_ONCE):
        columns = [(column.cast(pa.int64()) if column.type == TIME else column).to_pylist() for column in batch.columns]
        yield [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
