"""Forms of a frame: long, wide, events, rows. Each knows the columns that it needs and makes bursts of a batch of them.

Errors name the row within the batch; who calls knows where the batch begins.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rta_wire import errors, limits
from rta_wire.arrays import U32
from rta_wire.codec import columns, encode, event_messages, layout, wide
from rta_writers.options import parse as options_parse
from rta_writers.options.write import Form, WriteOptions

SESSION: Final = "session"
CHANNEL: Final = "channel"
TIME: Final = "time"
VALUE: Final = "value"
DEFINITION: Final = "event_definition_id"
CHANNELS: Final = "channels"
VALUES: Final = "values"

GROUP_BYTES_MAX: Final = 8 * limits.MIB
"""Rows that are encoded and sent together take at most about so much, however wide they are."""

Test = Callable[[pa.DataType], bool]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _is_list_of(item: Test) -> Test:
    def test(kind: pa.DataType) -> bool:
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and item(kind.value_type)

    return test


_WHAT: Final[dict[str, tuple[Test, str]]] = {
    "time": (_is_time, "a timestamp or a bigint of nanoseconds"),
    "integer": (pa.types.is_integer, "an integer"),
    "number": (_is_number, "a number"),
    "text": (_is_text, "a string"),
    "integers": (_is_list_of(pa.types.is_integer), "an array of integers"),
    "numbers": (_is_list_of(_is_number), "an array of numbers"),
}


class FrameEncoder(ABC):
    """Rows of one form to bursts."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.encoder = encode.Encoder(options.layout_plan(), options.encode_options())
        self.group_rows = options.group_rows

    @abstractmethod
    def required_columns(self) -> Mapping[str, str]:
        """Columns that must be there, and what each holds."""

    def optional_columns(self) -> Mapping[str, str]:
        """Columns that may be there."""
        return {}

    @abstractmethod
    def bursts(self, batch: pa.RecordBatch) -> Iterator[encode.Burst]:
        """Bursts of some rows."""

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns that can't be written."""
        wanted, optional = self.required_columns(), dict(self.optional_columns())
        if self.options.session is None:
            wanted = {**wanted, SESSION: "text"}
        known = {**wanted, **optional}
        for name in wanted:
            if name not in schema.names:
                raise errors.Usage(
                    reason=f"Format 'rta' needs a column {name!r}; the frame has {', '.join(schema.names) or 'none'}."
                    f"{_meant(name, schema.names)}"
                )
        for field in schema:
            if field.name not in known:
                raise errors.Usage(
                    reason=f"Format 'rta' does not know the column {field.name!r} of a frame in form "
                    f"{self.form.value!r}: {self.surplus(field.name)}"
                )
            fits, what = _WHAT[known[field.name]]
            if not fits(field.type):
                raise errors.Usage(reason=f"Column {field.name!r} is {field.type}, not {what}.{self.hint(field.name)}")

    form: Form

    def surplus(self, name: str) -> str:
        """What to do about a column that nobody asked for."""
        del name
        return "drop it first"

    def hint(self, name: str) -> str:
        """What to do about a column of the wrong type."""
        del name
        return ""


def _meant(name: str, have: list[str]) -> str:
    hint = options_parse.suggest(name, have) if have else ""
    return hint.replace("Did you mean", "Should it be") if "Did you mean" in hint else ""


class LongEncoder(FrameEncoder):
    """A row per sample: channel, time, value. A null value is no sample."""

    form = Form.LONG

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self._names = pa.array(list(options.channels), pa.string())
        self._ids = np.array(list(options.channels.values()), np.uint32)

    def required_columns(self) -> Mapping[str, str]:
        return {CHANNEL: "text" if self.options.channels else "integer", TIME: "time", VALUE: "number"}

    def check(self, schema: pa.Schema) -> None:
        spot = schema.get_field_index(CHANNEL)
        if self.options.channels and spot >= 0 and pa.types.is_integer(schema.field(spot).type):
            # Names for options like `sampleType`; the rows give ids.
            schema = schema.set(spot, pa.field(CHANNEL, pa.string()))
        super().check(schema)

    def hint(self, name: str) -> str:
        if name == CHANNEL and not self.options.channels:
            return ' Names of channels need a map to their ids: .option("channels", \'{"rpm": 1}\')'
        return ""

    def bursts(self, batch: pa.RecordBatch) -> Iterator[encode.Burst]:
        channels = columns.get_column(batch, CHANNEL)
        if _is_text(channels.type):
            channels = self._ids_of(channels)
        return self.encoder.rows(
            channels, columns.get_column(batch, TIME), decimals_to_doubles(columns.get_column(batch, VALUE))
        )

    def _ids_of(self, names: pa.Array) -> U32:
        spots = pc.index_in(names, value_set=self._names.cast(names.type))
        if spots.null_count:
            row = int(np.argmax(spots.is_null().to_numpy(zero_copy_only=False)))
            name = names[row].as_py()
            why = "the channel is null" if name is None else f"channel {name!r} is not in option 'channels'"
            raise errors.BadSamples(reason=f"row {row}: {why}", row=row)
        return np.asarray(self._ids[spots.to_numpy()])


class WideEncoder(FrameEncoder):
    """A row per time and a column per channel. A null is no sample."""

    form = Form.WIDE

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.group_rows = wide.group_rows(len(options.channels), self.encoder.options)

    def required_columns(self) -> Mapping[str, str]:
        if not self.options.channels:
            raise errors.Usage(
                reason="A wide frame needs the ids of its columns: "
                '.option("channels", \'{"rpm": 1, "speed": 2}\'). A long one needs the columns channel, time and value'
            )
        return {TIME: "time", **dict.fromkeys(self.options.channels, "number")}

    def surplus(self, name: str) -> str:
        return (
            f"drop it first, or give it an id in option 'channels'.{options_parse.suggest(name, self.options.channels)}"
        )

    def bursts(self, batch: pa.RecordBatch) -> Iterator[encode.Burst]:
        values = {
            channel: decimals_to_doubles(columns.get_column(batch, name))
            for name, channel in self.options.channels.items()
        }
        return self.encoder.table(columns.get_column(batch, TIME), values)


class EventsEncoder(FrameEncoder):
    """A row per event."""

    form = Form.EVENTS

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.group_rows = min(options.group_rows, limits.ENCODE_GROUP_EVENTS)

    def required_columns(self) -> Mapping[str, str]:
        return {DEFINITION: "integer", TIME: "time"}

    def optional_columns(self) -> Mapping[str, str]:
        return {"app_name": "text", "status_text": "text", "raw_data": "numbers"}

    def bursts(self, batch: pa.RecordBatch) -> Iterator[encode.Burst]:
        return self.encoder.events(event_messages.from_batches([batch]))


class RowsEncoder(FrameEncoder):
    """A row per time with an array of channels and one of values: one message of row data each."""

    form = Form.ROWS

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        self.encoder = encode.Encoder(options.layout_plan(layout.Kind.ROW), options.encode_options())
        self.group_rows = min(options.group_rows, limits.ENCODE_GROUP_EVENTS)

    def required_columns(self) -> Mapping[str, str]:
        return {TIME: "time", CHANNELS: "integers", VALUES: "numbers"}

    def bursts(self, batch: pa.RecordBatch) -> Iterator[encode.Burst]:
        lists = [columns.get_column(batch, name) for name in (CHANNELS, VALUES)]
        counts = [pc.fill_null(pc.list_value_length(one), -1).to_numpy(zero_copy_only=False) for one in lists]
        wrong = (counts[0] != counts[1]) | (counts[0] < 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise errors.BadSamples(
                reason=f"row {row}: {_count(counts[0][row])} channels and {_count(counts[1][row])} values", row=row
            )
        times = np.repeat(columns.times_ns(columns.get_column(batch, TIME)), counts[0])
        try:
            yield from self.encoder.rows(lists[0].flatten(), times, decimals_to_doubles(lists[1].flatten()))
        except errors.BadSamples as error:
            if (sample := error.facts.get("row")) is None:
                raise
            row = int(np.searchsorted(np.cumsum(counts[0]), sample, side="right"))
            raise at_row(error, row) from error


def _count(number: int) -> str:
    return "null" if number < 0 else str(number)


_FORMS: Final[dict[Form, type[FrameEncoder]]] = {
    Form.LONG: LongEncoder,
    Form.WIDE: WideEncoder,
    Form.EVENTS: EventsEncoder,
    Form.ROWS: RowsEncoder,
}


def choose_encoder(options: WriteOptions, schema: pa.Schema) -> FrameEncoder:
    """The form that was asked for, or else the one that the columns are in; checked."""
    form = options.form
    if form is Form.AUTO:
        names = set(schema.names)
        if DEFINITION in names:
            form = Form.EVENTS
        elif {CHANNELS, VALUES} <= names:
            form = Form.ROWS
        elif names & {CHANNEL, VALUE} or not options.channels:
            form = Form.LONG
        else:
            form = Form.WIDE
    made = _FORMS[form](options)
    made.check(schema)
    return made


def decimals_to_doubles(values: pa.Array) -> pa.Array:
    """Decimals as doubles; all else as it is."""
    return values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values


def at_row(error: errors.BadSamples, row: int, where: str = "") -> errors.BadSamples:
    """The same error at another row."""
    reason = str(error.facts["reason"]).removeprefix(f"row {error.facts['row']}: ")
    return errors.BadSamples(reason=f"row {row}{where}: {reason}", row=row)
