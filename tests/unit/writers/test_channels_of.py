"""Channels made of the columns of a table: a rule for every type, and what is no channel."""

import pyarrow as pa
import pytest
from pyspark.sql import types as sql

import rta_writers
from rta_wire import errors
from rta_wire.codec.layout import SampleType

NUMBERS = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
DECIMALS = {
    "decimal32": pa.decimal32(5, 2),
    "decimal64": pa.decimal64(10, 2),
    "decimal128": pa.decimal128(20, 3),
    "decimal256": pa.decimal256(50, 3),
}


def test_numbers_keep_their_types() -> None:
    """By themselves, with ids from 1 on in the order of columns; a decimal is a double."""
    schema = pa.schema([("time", pa.int64()), *NUMBERS.items(), *DECIMALS.items()])
    channels = list(rta_writers.Channels.of(schema))
    assert [(channel.name, channel.type.value) for channel in channels] == [
        *((name, name) for name in NUMBERS),
        *((name, "double") for name in DECIMALS),
    ]
    assert [channel.id for channel in channels] == list(range(1, len(channels) + 1))


def test_a_boolean_is_a_number_with_texts() -> None:
    """0 and 1 in a range that displays scale by."""
    [channel] = rta_writers.Channels.of(pa.schema([("is_on", pa.bool_())]))
    assert (channel.type, channel.min, channel.max) == (SampleType.UINT8, 0, 1)
    assert channel.conversion is not None
    assert [channel.conversion.text(value) for value in (0, 1)] == ["false", "true"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("column_type", "reason"),
    [
        (pa.string(), "a text is no sample"),
        (pa.string_view(), "a text is no sample"),
        (pa.timestamp("ns"), "a timestamp is no sample"),
        (pa.date32(), "type date32 can't be a channel"),
        (pa.binary(), "type binary can't be a channel"),
        (pa.list_(pa.float64()), "type list can't be a channel"),
        (pa.struct([("a", pa.int8())]), "type struct can't be a channel"),
        (pa.null(), "type null can't be a channel"),
    ],
)
def test_what_is_no_number_is_refused(column_type: pa.DataType, reason: str) -> None:
    """With the name of the column; one that is left out is no mistake."""
    schema = pa.schema([("a", pa.float64()), ("b", column_type)])
    with pytest.raises(errors.BadChannels, match=f"column 'b': .*{reason}"):
        rta_writers.Channels.of(schema)
    assert len(rta_writers.Channels.of(schema, ignore=["b"])) == 1


def test_columns_that_are_no_channels() -> None:
    """The time, the session, and the stream of a session; a number called stream is a channel."""
    of_rows = pa.schema([("time", pa.int64()), ("session", pa.string()), ("stream", pa.string()), ("a", pa.int8())])
    assert [channel.name for channel in rta_writers.Channels.of(of_rows)] == ["a"]
    assert [channel.name for channel in rta_writers.Channels.of(pa.schema([("stream", pa.int8())]))] == ["stream"]
    text = sql.StringType("UTF8_LCASE")
    collated = sql.StructType().add("session", text).add("stream", text).add("a", sql.ByteType())
    assert [channel.name for channel in rta_writers.Channels.of(collated)] == ["a"]


def test_a_column_that_is_there_twice_is_refused() -> None:
    """Which of the two a channel is can't be said."""
    with pytest.raises(errors.BadChannels, match="channel 'a': its name stands there twice"):
        rta_writers.Channels.of(pa.schema([("a", pa.int8()), ("b", pa.int8()), ("a", pa.int8())]))


def test_a_name_that_is_a_number_is_its_id() -> None:
    """The others get those that it leaves."""
    channels = rta_writers.Channels.of(pa.schema([(name, pa.int8()) for name in ("a", "2", "b")]))
    assert {channel.name: channel.id for channel in channels} == {"a": 1, "2": 2, "b": 3}
    for name in (str(2**32), "9" * 5000):
        with pytest.raises(errors.BadChannels, match="its name"):
            rta_writers.Channels.of(pa.schema([(name, pa.int8())]))
