"""Rows divided by the sessions and streams that they name."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_writers.options.stream_template import StreamTemplate
from rta_writers.options.write import WriteOptions
from rta_writers.write import frames
from rta_writers.write.row_sessions import RowDivider, SessionRows

Rows = list[tuple[str, str | None, int]]


def divide(rows: Rows, stream: str, *, columns: tuple[str, str] = ("topic", "partition")) -> list[SessionRows]:
    """Rows of a session, a topic and a partition, whose value is their position."""
    names, topics, partitions = zip(*rows, strict=True)
    count = len(rows)
    batch = pa.record_batch(
        {
            "session": names,
            "channel": [1] * count,
            columns[0]: pa.array(topics, pa.string()),
            columns[1]: pa.array(partitions, pa.int32()),
            "time": range(count),
            "value": range(count),
        }
    )
    options = WriteOptions.parse({"redisUrl": "redis://localhost", "stream": stream})
    encoder = frames.choose_encoder(options, batch.schema)
    return list(RowDivider(options, encoder, batch.schema).divide(batch))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=200))
def test_rows_are_divided_by_session_in_their_order(names: list[int]) -> None:
    """Each session has its rows in their order and its stream, and no column that named them."""
    divided = divide([(f"car-{name}", f"_cars{name % 2}", name % 3) for name in names], "{topic}-{partition}")
    oracle: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        oracle.setdefault(f"car-{name}", []).append(row)
    assert {part.identity: part.rows["value"].to_pylist() for part in divided} == oracle
    assert list(oracle) == [part.identity for part in divided]
    for part in divided:
        name = int(part.identity.removeprefix("car-"))
        assert part.stream == f"0x_cars{name % 2}-{name % 3}"
        assert part.rows.schema.names == ["channel", "time", "value"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_rows_of_a_session_in_two_streams_are_refused(names: list[tuple[int, int]]) -> None:
    """Where and only where a row names another stream than the first one of its session."""
    streams: dict[int, int] = {}
    is_wrong = any(streams.setdefault(session, partition) != partition for session, partition in names)
    rows: Rows = [(f"s{session}", "t", partition) for session, partition in names]
    if is_wrong:
        with pytest.raises(errors.SessionConflict, match=r"Session 's\d' is open already with the stream 't-\d'"):
            divide(rows, "{topic}-{partition}")
    else:
        assert {part.identity: part.stream for part in divide(rows, "{topic}-{partition}")} == {
            f"s{session}": f"t-{partition}" for session, partition in streams.items()
        }


def test_other_columns_may_make_the_same_name() -> None:
    """The names of streams are compared, not what they are made of."""
    assert divide([("a", "t1", 2), ("a", "t", 12)], "{topic}{partition}")[0].stream == "t12"


def test_a_null_in_a_name_is_refused() -> None:
    """A row without a part of its stream's name fails its task."""
    with pytest.raises(errors.BadSamples, match="row 1 of a batch: the topic is null"):
        divide([("a", "t", 1), ("b", None, 1)], "{topic}-{partition}")


def test_the_column_stream_goes_before_the_option() -> None:
    """The option is for rows where it is null, and for none where it says `{stream}`."""
    rows: Rows = [("a", "_x", 1), ("b", None, 1)]
    columns = ("stream", "channel")
    assert [part.stream for part in divide(rows, "0x_y", columns=columns)] == ["0x_x", "0x_y"]
    with pytest.raises(errors.BadSamples, match="the stream is null"):
        divide(rows, "{stream}", columns=columns)


def test_columns_of_the_form_may_name_streams() -> None:
    """They are written as well."""
    (part,) = divide([("a", "t", 1)], "{topic}.{channel}.{partition}")
    assert (part.stream, part.rows.schema.names) == ("t.1.1", ["channel", "time", "value"])


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ("{}", "without the name of a column"),
        ("{topic}/{partition}", "Stream name '0/0' is not valid"),
        ("{topic", "Stream name '{topic' is not valid"),
        ("_a", "Stream name '_a' is not valid"),
        ("{offset}", "needs a column 'offset'"),
        ("{time}", "Column 'time' is timestamp"),
    ],
)
def test_wrong_templates_are_named(stream: str, message: str) -> None:
    """Before any task starts."""
    schema = pa.schema(
        {"session": pa.string(), "channel": pa.int32(), "time": pa.timestamp("us"), "value": pa.float64()}
    )
    with pytest.raises(errors.RtaError, match=message):
        frames.choose_encoder(WriteOptions.parse({"redisUrl": "redis://localhost", "stream": stream}), schema)


def test_a_session_of_the_options_is_in_one_stream() -> None:
    """Neither its name may be a template nor the frame have a column for it."""
    options = {"redisUrl": "redis://localhost", "session": "run-1", "streamSessionId": "7"}
    with pytest.raises(errors.BadName):
        WriteOptions.parse({**options, "stream": "{topic}"})
    schema = pa.schema({"stream": pa.string(), "channel": pa.int32(), "time": pa.int64(), "value": pa.float64()})
    with pytest.raises(errors.Usage, match="does not know the column 'stream'"):
        frames.choose_encoder(WriteOptions.parse({**options, "stream": "rig"}), schema)


def test_a_template_without_columns_is_a_name() -> None:
    """It is not escaped."""
    assert StreamTemplate.parse("rig").columns == ()
    assert StreamTemplate.parse("{a}-{b}").columns == ("a", "b")
