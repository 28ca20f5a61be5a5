"""Options of writers and readers: every mistake is named before any task starts."""

import pyarrow as pa
import pytest

from rta_wire import errors
from rta_wire.codec import layout
from rta_writers.options import read as options_read
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import fingerprint, frames

SESSION = {"redisUrl": "redis://localhost", "session": "run-1", "stream": "rig", "streamSessionId": "7"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delivry": "staged"}, "no option 'delivry'. Did you mean 'delivery'"),
        ({"quux": "1"}, "It knows burstBytes, channels"),
        ({"delivery": "exactly-one"}, "Option 'delivery' is 'exactly-one'.*Did you mean 'exactly-once'"),
        ({"wait": "yes"}, "Option 'wait' is 'yes': it is true or false"),
        ({"groupRows": "many"}, "Option 'groupRows' is 'many': it is a whole number"),
        ({"groupRows": "0"}, "it is between 1 and"),
        ({"channels": "rpm"}, "Option 'channels' is 'rpm': it is a JSON object, or name=value"),
        ({"channels": "rpm=1,rpm=2"}, "names 'rpm' twice"),
        ({"channels": "rpm=1,speed=1"}, "gives one channel id to two names"),
        ({"channels": '{"rpm": -1}'}, "it is between 0 and 4294967295"),
        ({"sampleType": "rpm=float"}, "Option 'sampleType' speaks of channel 'rpm', which is no id"),
        ({"channels": "rpm=1", "kind": "rmp=row"}, "'rmp', .* Did you mean 'rpm'"),
        ({"sampleType": "flot"}, "Did you mean 'float'"),
        ({"kind": "row", "intervalNs": "5"}, "'kind' and 'intervalNs'.*has an interval but is row"),
        ({"stream": "a/b"}, "Stream name 'a/b' is not valid"),
        ({"waitTimeoutS": "nan"}, "a number of seconds above 0"),
        ({"sessionProperties": "[]"}, "Option 'sessionProperties' is '\\[\\]': it is a JSON object"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], words: str) -> None:
    """The sentence names the option, and the nearest valid one where there is one."""
    with pytest.raises(errors.RtaError, match=words):
        WriteOptions.parse({**SESSION, **given})


@pytest.mark.parametrize("missing", ["redisUrl", "stream", "streamSessionId"])
def test_a_missing_option_is_named(missing: str) -> None:
    """The sentence tells where the options come from."""
    given = {name: value for name, value in SESSION.items() if name != missing}
    with pytest.raises(errors.Usage, match=rf"'{missing}'.*session\.options"):
        WriteOptions.parse(given)


def test_names_are_found_in_any_case_and_sparks_own_are_passed_over() -> None:
    """Spark folds the case of names and hands its own options on."""
    options = WriteOptions.parse({**{name.lower(): text for name, text in SESSION.items()}, "checkpointlocation": "x"})
    assert (options.session, options.stream_session_id, options.delivery) == (
        "run-1",
        7,
        DeliveryGuarantee.EXACTLY_ONCE,
    )


def test_layouts_come_from_names_ids_and_a_default() -> None:
    """A channel's own words go before those for all."""
    options = WriteOptions.parse(
        {
            **SESSION,
            "channels": '{"rpm": 1, "speed": 2}',
            "sampleType": '{"*": "float", "rpm": "int16", "9": "double"}',
            "kind": "speed=periodic",
            "intervalNs": "speed=1000",
        }
    )
    made = options.layout_plan()
    assert made.default == layout.Layout(layout.SampleType.FLOAT)
    assert made.layout(1) == layout.Layout(layout.SampleType.INT16)
    assert made.layout(2) == layout.Layout(layout.SampleType.FLOAT, layout.Kind.PERIODIC, 1000)
    assert made.layout(9) == layout.Layout(layout.SampleType.DOUBLE)


LONG = {"channel": pa.int32(), "time": pa.int64(), "value": pa.float64()}


@pytest.mark.parametrize(
    ("given", "columns", "form"),
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
    given: dict[str, str], columns: dict[str, pa.DataType], form: type[frames.FrameEncoder]
) -> None:
    """No option is needed where the columns say it."""
    assert type(frames.choose_encoder(WriteOptions.parse({**SESSION, **given}), pa.schema(columns))) is form


@pytest.mark.parametrize(
    ("given", "columns", "words"),
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
def test_wrong_columns_are_named(given: dict[str, str], columns: dict[str, pa.DataType], words: str) -> None:
    """The sentence names the column and what it should be."""
    with pytest.raises(errors.Usage, match=words):
        frames.choose_encoder(WriteOptions.parse({**SESSION, **given}), pa.schema(columns))


def test_rows_without_a_session_option_need_a_session_column() -> None:
    """Somebody has to say where the rows go."""
    options = WriteOptions.parse({"redisUrl": "redis://localhost", "stream": "rig"})
    with pytest.raises(errors.Usage, match="needs a column 'session'"):
        frames.choose_encoder(options, pa.schema(LONG))
    frames.choose_encoder(options, pa.schema({**LONG, "session": pa.string()}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "set option 'session' or 'stream'"),
        ({"stream": "rig", "startingOffset": "now"}, "'startingOffset' is 'now': it is earliest, latest or the id"),
        ({"stream": "rig", "failOnDataLost": "false"}, "Did you mean 'failOnDataLoss'"),
        ({"stream": "rig", "form": "sample"}, "Did you mean 'samples'"),
    ],
)
def test_a_wrong_option_of_a_reader_is_named(given: dict[str, str], words: str) -> None:
    """Readers know options of their own and say so."""
    with pytest.raises(errors.Usage, match=words):
        options_read.ReadOptions.parse({"redisUrl": "redis://localhost", **given})


def test_a_fingerprint_is_of_the_rows_and_not_of_their_order() -> None:
    """Parts add up, another order is the same, another value is not."""
    table = pa.record_batch({"time": [3, 1, 2], "value": [0.5, 1.5, None]})
    whole = fingerprint.fingerprint(table)
    parts = [fingerprint.fingerprint(table.slice(0, 1)), fingerprint.fingerprint(table.slice(1))]
    assert sum(parts) % 2**64 == whole
    assert fingerprint.fingerprint(table.take([2, 0, 1])) == whole
    assert fingerprint.fingerprint(pa.record_batch({"time": [3, 1, 2], "value": [0.5, 1.25, None]})) != whole
