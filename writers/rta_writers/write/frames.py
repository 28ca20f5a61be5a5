"""Forms of a frame: long, wide, events, rows. Each has the columns that it needs, and encodes batches to bursts.

Errors name the row within the batch; the caller adds where the batch begins.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from rta_wire import errors, limits
from rta_wire.arrays import U32
from rta_wire.channels.known_ids import KnownIds
from rta_wire.codec import columns, encode, event_messages, layout, wide
from rta_wire.codec.burst import Burst
from rta_writers.options import parse as options_parse
from rta_writers.options.stream_template import STREAM_COLUMN
from rta_writers.options.write import Form, WriteOptions
from rta_writers.write import column_types
from rta_writers.write.column_types import ColumnType

SESSION: Final = "session"
CHANNEL: Final = "channel"
TIME: Final = "time"
VALUE: Final = "value"
LONG_COLUMNS: Final = (CHANNEL, TIME, VALUE)
EVENT_DEFINITION_ID: Final = "event_definition_id"
APP_NAME: Final = "app_name"
STATUS_TEXT: Final = "status_text"
RAW_DATA: Final = "raw_data"
CHANNELS: Final = "channels"
VALUES: Final = "values"

TYPES_WITHOUT_VALUES: Final = {
    **dict.fromkeys((SESSION, CHANNEL, TIME, EVENT_DEFINITION_ID), pa.null()),
    **dict.fromkeys((APP_NAME, STATUS_TEXT), pa.string()),
    RAW_DATA: pa.list_(pa.float64()),
}
"""Types of columns in which rows have no value. Where each row needs one, null stays a wrong type."""

GROUP_BYTES_MAX: Final = 20 * limits.MIB
"""Rows that are encoded and sent together take at most about so much, however wide they are. Each column of a group has
a fixed cost: with less than half of this, 5,000 columns take 1.6 times as long."""

PLAIN_ROW_BYTES: Final = 24
"""An id, a time and a double."""


class FrameEncoder(ABC):
    """Encodes the rows of a frame in one form."""

    form: Form
    default_kind = layout.Kind.TIMESTAMPED

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.encoder = encode.Encoder(options.layout_plan(self.default_kind), options.encode_options())
        self.known_ids = None if options.channel_list is None else KnownIds(options.channel_list)
        self.group_rows = options.group_rows
        """Rows that are best encoded together."""
        self.group_bytes: int | None = GROUP_BYTES_MAX
        """None where rows are small and alike, so that `group_rows` bounds their bytes too: counting takes time."""

    @abstractmethod
    def required_columns(self) -> Mapping[str, ColumnType]:
        """Columns that must be in the frame, beside that of the session."""

    def optional_columns(self) -> Mapping[str, ColumnType]:
        """Columns that may be in the frame."""
        return {}

    def has_column(self, name: str) -> bool:
        """Whether a column is one of the form, and not only of the session and its stream."""
        return name in self.required_columns() or name in self.optional_columns()

    @abstractmethod
    def bursts(self, batch: pa.RecordBatch) -> Iterator[Burst]:
        """The bursts of a batch of rows."""

    def check_rows(self, batch: pa.RecordBatch) -> None:
        """Refuse rows that can't be encoded. Encodes them where no less finds every mistake."""
        for _ in self.bursts(batch):
            pass

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that can't be written."""
        required = dict(self.required_columns())
        optional = dict(self.optional_columns())
        if self.options.session is None:
            optional[STREAM_COLUMN] = column_types.NAME_PART
            required |= dict.fromkeys(self.options.stream_template.columns, column_types.NAME_PART)
            required[SESSION] = column_types.TEXT
        names = dict.fromkeys(schema.names)
        for name in required:
            if name not in names:
                raise errors.Usage(
                    reason=f"Format 'rta' needs a column {name!r}; the frame has {', '.join(names) or 'none'}."
                    f"{_nearest_column(name, list(names))}"
                )
        types = {**optional, **required}
        for field in schema:
            if field.name not in types:
                raise errors.Usage(
                    reason=f"Format 'rta' does not know the column {field.name!r} of a frame in form "
                    f"{self.form.value!r}: {self.unknown_column_hint(field.name)}"
                )
            column_type = types[field.name]
            if not column_type.matches(field.type):
                raise errors.Usage(
                    reason=f"Column {field.name!r} is {field.type}, not {column_type.description}."
                    f"{self.wrong_type_hint(field.name)}"
                )

    def unknown_column_hint(self, name: str) -> str:
        """What to do about a column that the form does not have."""
        del name
        return "drop it first"

    def wrong_type_hint(self, name: str) -> str:
        """What to do about a column of the wrong type."""
        del name
        return ""


class LongEncoder(FrameEncoder):
    """A row per sample: channel, time, value. A null value is no sample."""

    form = Form.LONG

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self._has_names = bool(options.channels or options.channel_list)
        self._has_plain_types = False

    def required_columns(self) -> Mapping[str, ColumnType]:
        channel_type = column_types.TEXT if self._has_names else column_types.INTEGER
        return {CHANNEL: channel_type, TIME: column_types.TIME, VALUE: column_types.NUMBER}

    def check(self, schema: pa.Schema) -> None:
        index = schema.get_field_index(CHANNEL)
        if self._has_names and index >= 0 and pa.types.is_integer(schema.field(index).type):
            # Names for options like `sampleType`; the rows give ids.
            super().check(schema.set(index, pa.field(CHANNEL, pa.string())))
        else:
            super().check(schema)
        is_double = all(used.type is layout.SampleType.DOUBLE for used in self.encoder.layouts.layouts)
        self._has_plain_types = is_double and schema.types == [pa.int64(), pa.int64(), pa.float64()]
        if self._has_plain_types and self.group_rows * PLAIN_ROW_BYTES <= GROUP_BYTES_MAX:
            self.group_bytes = None

    @property
    def has_plain_rows(self) -> bool:
        """Whether all rows are timestamped doubles, in groups that are bounded by their number of rows alone."""
        return self._has_plain_types and self.encoder.is_plain and self.group_bytes is None

    def wrong_type_hint(self, name: str) -> str:
        if name == CHANNEL and not self._has_names:
            return ' Names of channels need a map to their ids: .option("channels", \'{"rpm": 1}\')'
        return ""

    def check_rows(self, batch: pa.RecordBatch) -> None:
        times = columns.get_column(batch, TIME)
        if self.are_plain(columns.get_column(batch, CHANNEL), times):
            return
        columns.times_ns(times)
        ids = columns.channels(self._channels(batch))
        values, valid = columns.column(columns.get_column(batch, VALUE), "value")
        layouts = self.encoder.layouts
        codes = layouts.codes(ids)
        for code, used in enumerate(layouts.layouts):
            rows = np.flatnonzero(codes == code if valid is None else (codes == code) & valid)
            columns.cast_samples(values[rows], used.type, rows)

    def are_plain(self, channels: pa.Array, times: pa.Array) -> bool:
        """Whether columns of the types that were checked need no look at their rows but this one."""
        if not self._has_plain_types or channels.null_count or times.null_count or not len(channels):
            return False
        # Negative ones are large numbers without a sign.
        unsigned = np.frombuffer(channels.buffers()[1], np.uint64, len(channels), channels.offset * 8)
        if self.known_ids is not None and not self.known_ids.has_all(unsigned):
            return False
        return int(unsigned.max()) <= limits.CHANNEL_ID_MAX

    def bursts(self, batch: pa.RecordBatch) -> Iterator[Burst]:
        return self.encoder.rows(
            self._channels(batch),
            columns.get_column(batch, TIME),
            columns.get_column(batch, VALUE),
        )

    def _channels(self, batch: pa.RecordBatch) -> Any:
        channels = columns.get_column(batch, CHANNEL)
        if not pa.types.is_integer(channels.type):
            return self._channel_ids(channels)
        if self.known_ids is not None and not channels.null_count:
            self.known_ids.check(channels.to_numpy())
        return channels

    @functools.cached_property
    def _names(self) -> pa.Array:
        return pa.array(list(self._ids_by_name), pa.string())

    @functools.cached_property
    def _ids(self) -> U32:
        return np.array(list(self._ids_by_name.values()), np.uint32)

    @functools.cached_property
    def _ids_by_name(self) -> Mapping[str, int]:
        if (listed := self.options.channel_list) is None:
            return self.options.channels
        return {channel.name: channel.id for channel in listed.channels}

    def _channel_ids(self, names: pa.Array) -> U32:
        indices = _compute().index_in(names, value_set=self._names.cast(names.type))
        if indices.null_count:
            row = int(np.argmax(indices.is_null().to_numpy(zero_copy_only=False)))
            name = names[row].as_py()
            why = "the channel is null" if name is None else self._unknown_name(name)
            raise errors.BadSamples(reason=f"row {row}: {why}", row=row)
        return np.asarray(self._ids[indices.to_numpy()])

    def _unknown_name(self, name: str) -> str:
        if (listed := self.options.channel_list) is None:
            return f"channel {name!r} is not in option 'channels'"
        return (
            f"channel {name!r} is not in configuration {self.options.config}."
            f"{options_parse.suggest_channel(name, listed)}"
        )


class WideEncoder(FrameEncoder):
    """A row per time and a column per channel. A null is no sample."""

    form = Form.WIDE

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.group_rows = wide.group_rows(len(options.channels), self.encoder.options)

    def required_columns(self) -> Mapping[str, ColumnType]:
        if not self.options.channels and self.options.channel_list is None:
            raise errors.Usage(
                reason="A wide frame needs the ids of its columns: "
                '.option("channels", \'{"rpm": 1, "speed": 2}\'). A long one needs the columns channel, time and value'
            )
        return {TIME: column_types.TIME, **dict.fromkeys(self.options.channels, column_types.NUMBER)}

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        if not self.options.channels:
            raise errors.Usage(reason="The frame has no column that is a channel: there is nothing to write")

    def unknown_column_hint(self, name: str) -> str:
        if (listed := self.options.channel_list) is not None:
            return (
                f"it is no channel of configuration {self.options.config}. Drop it first, or open the session with "
                f"channels that have it.{options_parse.suggest_channel(name, listed)}"
            )
        return (
            f"drop it first, or give it an id in option 'channels'.{options_parse.suggest(name, self.options.channels)}"
        )

    def check_rows(self, batch: pa.RecordBatch) -> None:
        columns.times_ns(columns.get_column(batch, TIME))
        for name, channel in self.options.channels.items():
            values, valid = columns.column(columns.get_column(batch, name), name)
            rows = None if valid is None else np.flatnonzero(valid)
            sample_type = self.encoder.layouts.layout(channel).type
            columns.cast_samples(values if rows is None else values[rows], sample_type, rows)

    def bursts(self, batch: pa.RecordBatch) -> Iterator[Burst]:
        channels = self.options.channels
        arrays = columns.get_columns(batch, channels)
        return self.encoder.table(columns.get_column(batch, TIME), dict(zip(channels.values(), arrays, strict=True)))


class EventsEncoder(FrameEncoder):
    """A row per event."""

    form = Form.EVENTS

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.group_rows = min(options.group_rows, limits.ENCODE_GROUP_EVENTS)

    def required_columns(self) -> Mapping[str, ColumnType]:
        return {EVENT_DEFINITION_ID: column_types.INTEGER, TIME: column_types.TIME}

    def optional_columns(self) -> Mapping[str, ColumnType]:
        return {
            APP_NAME: column_types.TEXT,
            STATUS_TEXT: column_types.TEXT,
            RAW_DATA: column_types.NUMBERS,
        }

    def bursts(self, batch: pa.RecordBatch) -> Iterator[Burst]:
        return self.encoder.events(event_messages.from_batches([batch]))


class RowsEncoder(FrameEncoder):
    """A row per time with an array of channels and one of values: one message of row data each."""

    form = Form.ROWS
    default_kind = layout.Kind.ROW

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.group_rows = min(options.group_rows, limits.ENCODE_GROUP_EVENTS)

    def required_columns(self) -> Mapping[str, ColumnType]:
        return {TIME: column_types.TIME, CHANNELS: column_types.INTEGERS, VALUES: column_types.NUMBERS}

    def bursts(self, batch: pa.RecordBatch) -> Iterator[Burst]:
        pc = _compute()
        lists = [columns.get_column(batch, name) for name in (CHANNELS, VALUES)]
        channel_counts, value_counts = (
            pc.fill_null(pc.list_value_length(array), -1).to_numpy(zero_copy_only=False) for array in lists
        )
        is_wrong = (channel_counts != value_counts) | (channel_counts < 0)
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            counts = f"{_count_text(channel_counts[row])} channels and {_count_text(value_counts[row])} values"
            raise errors.BadSamples(reason=f"row {row}: {counts}", row=row)
        times = np.repeat(columns.times_ns(columns.get_column(batch, TIME)), channel_counts)
        try:
            if self.known_ids is not None and not lists[0].flatten().null_count:
                self.known_ids.check(lists[0].flatten().to_numpy())
            yield from self.encoder.rows(lists[0].flatten(), times, lists[1].flatten())
        except errors.BadSamples as error:
            if (sample := error.facts.get("row")) is None:
                raise
            row = int(np.searchsorted(np.cumsum(channel_counts), sample, side="right"))
            raise at_row(error, row) from error


_ENCODERS: Final[dict[Form, type[FrameEncoder]]] = {
    encoder.form: encoder for encoder in (LongEncoder, WideEncoder, EventsEncoder, RowsEncoder)
}


def choose_encoder(options: WriteOptions, schema: pa.Schema) -> FrameEncoder:
    """The encoder of the form that was asked for, or of the one that the columns are in. The columns are checked."""
    form = options.form
    if form is Form.AUTO:
        names = set(schema.names)
        if _has_channels_alone(options, names):
            form = Form.WIDE
        elif EVENT_DEFINITION_ID in names:
            form = Form.EVENTS
        elif {CHANNELS, VALUES} <= names:
            form = Form.ROWS
        elif names & {CHANNEL, VALUE} or not (options.channels or options.channel_list):
            form = Form.LONG
        else:
            form = Form.WIDE
    if form is Form.WIDE and options.channel_list is not None:
        # Columns in the order of ids; those that it does not have are refused below. Option `channels` says the same.
        names = set(schema.names) - {TIME}
        of_frame = {channel.name: channel.id for channel in options.channel_list.channels if channel.name in names}
        options = msgspec.structs.replace(options, channels=of_frame)
    encoder = _ENCODERS[form](options)
    encoder.check(schema)
    return encoder


def _has_channels_alone(options: WriteOptions, names: Set[str]) -> bool:
    """Whether all columns are channels of the configuration, which may be called like columns of another form."""
    if options.channel_list is None or names >= set(LONG_COLUMNS):
        return False
    others = {TIME, *(() if options.session else (SESSION, STREAM_COLUMN, *options.stream_template.columns))}
    return TIME in names and names - others <= options.channel_list.by_name.keys()


def at_row(error: errors.BadSamples, row: int, where: str = "") -> errors.BadSamples:
    """The same error at another row."""
    reason = str(error.facts["reason"]).removeprefix(f"row {error.facts['row']}: ")
    return errors.BadSamples(reason=f"row {row}{where}: {reason}", row=row)


def _nearest_column(name: str, names: list[str]) -> str:
    hint = options_parse.suggest(name, names) if names else ""
    return hint.replace("Did you mean", "Should it be") if "Did you mean" in hint else ""


def _compute() -> Any:
    """`pyarrow.compute`, imported when a frame needs it: few do, and it takes 25 ms and 8 MiB of an executor."""
    import pyarrow.compute  # noqa: PLC0415 - see above

    return pyarrow.compute


def _count_text(count: int) -> str:
    return "null" if count < 0 else str(count)
