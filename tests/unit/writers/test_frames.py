"""Forms of frames: which one follows from the columns, and which columns are refused."""

import msgspec
import pyarrow as pa
import pytest

from rta_wire import errors
from rta_wire.channels import model
from rta_writers.options.write import WriteOptions
from rta_writers.write import frames

SESSION = {"redisUrl": "redis://localhost", "session": "run-1", "stream": "rig", "streamSessionId": "7"}


LONG = {"channel": pa.int32(), "time": pa.int64(), "value": pa.float64()}


@pytest.mark.parametrize(
    ("options", "columns", "form"),
    [
        ({}, LONG, frames.LongEncoder),
        ({}, {**LONG, "time": pa.timestamp("us", "UTC"), "value": pa.decimal128(9, 2)}, frames.LongEncoder),
        ({"channels": "a=1"}, {**LONG, "channel": pa.string()}, frames.LongEncoder),
        ({"channels": "a=1"}, LONG, frames.LongEncoder),
        ({"channels": "a=1,b=2"}, {"time": pa.int64(), "a": pa.float32(), "b": pa.int8()}, frames.WideEncoder),
        ({}, {"event_definition_id": pa.int32(), "time": pa.int64(), "status_text": pa.string()}, frames.EventsEncoder),
        (
            {},
            {"time": pa.int64(), "channels": pa.list_(pa.int32()), "values": pa.list_(pa.float64())},
            frames.RowsEncoder,
        ),
    ],
)
def test_the_form_follows_from_the_columns(
    options: dict[str, str], columns: dict[str, pa.DataType], form: type[frames.FrameEncoder]
) -> None:
    """No option is needed where the columns say it."""
    assert type(frames.choose_encoder(WriteOptions.parse({**SESSION, **options}), pa.schema(columns))) is form


@pytest.mark.parametrize(
    ("columns", "form"),
    [
        (("time", "value", "rpm"), frames.WideEncoder),
        (("time", "channel"), frames.WideEncoder),
        (("time", "event_definition_id"), frames.WideEncoder),
        (("time", "channels", "values"), frames.WideEncoder),
        (("channel", "time", "value"), frames.LongEncoder),
    ],
)
def test_channels_may_be_called_like_columns_of_other_forms(
    columns: tuple[str, ...], form: type[frames.FrameEncoder]
) -> None:
    """Where the configuration has all columns of a frame it is a wide one, unless it is in long form."""
    names = ("value", "rpm", "channel", "event_definition_id", "channels", "values")
    listed = model.build([model.Channel(id=number, name=name) for number, name in enumerate(names)])
    options = msgspec.structs.replace(WriteOptions.parse(SESSION), channel_list=listed, config="0" * 40)
    schema = pa.schema({**dict.fromkeys(columns, pa.float64()), "time": pa.int64()})
    if form is frames.LongEncoder:
        schema = pa.schema(LONG)
    assert type(frames.choose_encoder(options, schema)) is form


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, {"chanel": pa.int32(), "time": pa.int64(), "value": pa.float64()}, "needs a column 'channel'.*'chanel'"),
        ({}, {**LONG, "channel": pa.string()}, "Column 'channel' is string, not an integer.*channels"),
        ({}, {**LONG, "value": pa.string()}, "Column 'value' is string, not a number"),
        ({}, {**LONG, "time": pa.date32()}, "Column 'time' is date32.*not a timestamp or a bigint"),
        ({}, {**LONG, "extra": pa.int32()}, "does not know the column 'extra'.*drop it"),
        ({}, {"time": pa.int64(), "a": pa.float64()}, "needs a column 'channel'"),
        ({"form": "wide"}, {"time": pa.int64(), "a": pa.float64()}, "needs the ids of its columns"),
        ({"channels": "a=1"}, {"time": pa.int64(), "b": pa.float64()}, "needs a column 'a'"),
        ({"channels": "a=1"}, {"time": pa.int64(), "a": pa.float64(), "b": pa.int8()}, "'b'.*give it an id"),
    ],
)
def test_wrong_columns_are_named(options: dict[str, str], columns: dict[str, pa.DataType], message: str) -> None:
    """The sentence names the column and what it should be."""
    with pytest.raises(errors.Usage, match=message):
        frames.choose_encoder(WriteOptions.parse({**SESSION, **options}), pa.schema(columns))


def test_rows_without_a_session_option_need_a_session_column() -> None:
    """A frame without a column `session` is refused where the options name none."""
    options = WriteOptions.parse({"redisUrl": "redis://localhost", "stream": "rig"})
    with pytest.raises(errors.Usage, match="needs a column 'session'"):
        frames.choose_encoder(options, pa.schema(LONG))
    frames.choose_encoder(options, pa.schema({**LONG, "session": pa.string()}))
