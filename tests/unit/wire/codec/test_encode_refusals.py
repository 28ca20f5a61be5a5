"""What can not be encoded is refused by name, with its row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rta_wire import errors
from rta_wire.codec import decode, encode, event_messages
from rta_wire.codec import layout as codec_layout

ONE = np.ones(3)
IDS = np.arange(3, dtype=np.uint32)
TIMES = np.arange(3)


@pytest.mark.parametrize(
    ("channels", "times", "values", "words"),
    [
        (pa.array([1, None, 2]), TIMES, ONE, "row 1: the channel is null"),
        (np.array([1, 2, -1]), TIMES, ONE, "row 2: the channel does not fit uint32: -1"),
        (np.array([1, 2**32, 1]), TIMES, ONE, "row 1: the channel does not fit uint32: 4294967296"),
        (ONE, TIMES, ONE, "not an integer"),
        (IDS, pa.array([1, 2, None], pa.timestamp("us")), ONE, "row 2: the time is null"),
        (IDS, np.array([1, "NaT", 2], "M8[ns]"), ONE, "row 1: the time is null"),
        (IDS, pa.array([0, 2**62, 0], pa.timestamp("s")), ONE, "row 1: the time, in s, does not fit"),
        (IDS, np.array([0, 2**63, 0], np.uint64), ONE, "row 1: the time does not fit int64: 9223372036854775808"),
        (IDS, ONE, ONE, "not a timestamp"),
        (IDS, np.array([1, 2, 3], "M8[D]"), ONE, "counts in D"),
        (IDS, TIMES, pa.array(["a", "b", "c"]), "no number"),
        (IDS, TIMES, np.array([None, 1.0, 2.0]), "no number"),
        (IDS, TIMES[:2], ONE, "differ"),
    ],
)
def test_rows_that_can_not_be_encoded_are_refused_by_name(channels: Any, times: Any, values: Any, words: str) -> None:
    """Nothing is dropped or bent: the error says which row and why."""
    with pytest.raises(errors.BadSamples, match=words):
        list(encode.Encoder().rows(channels, times, values))


@pytest.mark.parametrize(
    ("kind", "values", "fits"),
    [
        ("int8", np.array([127.0, -128.0]), True),
        ("int8", np.array([1.0, 128.0]), False),
        ("uint8", np.array([1, -1]), False),
        ("uint8", np.array([0, 255], np.uint64), True),
        ("uint8", np.array([False, True]), True),
        ("int16", np.array([1.0, 0.5]), False),
        ("int32", np.array([1.0, np.nan]), False),
        ("int32", np.array([0, 2**31], np.uint32), False),
        ("int64", np.array([0.0, 2.0**63]), False),
        ("int64", np.array([0.0, -(2.0**63)]), True),
        ("int64", np.array([0, 2**63], np.uint64), False),
        ("uint64", np.array([0.0, 2.0**64]), False),
        ("uint64", np.array([0.0, np.inf]), False),
        ("uint64", np.array([0, -(2**63)]), False),
        ("float", np.array([1.0, 1e300]), False),
        ("float", np.array([0.1, np.inf]), True),
        ("float", np.array([0, 2**24 + 1]), False),
        ("double", np.array([0, 2**53 + 1]), False),
        ("double", np.array([0, 2**64 - 1], np.uint64), False),
        ("double", np.array([0, 2**63 - 1]), False),
        ("double", np.array([0, 2**53]), True),
        ("double", np.array([0.5, 1.5], np.float16), True),
    ],
)
def test_a_value_that_its_channel_can_not_hold_is_refused(kind: str, values: Any, fits: bool) -> None:
    """Integers stay exact and in range; only a double in a channel of floats may round."""
    layouts = codec_layout.Plan(default=codec_layout.Layout(codec_layout.SampleType(kind)))
    made = encode.Encoder(layouts).rows(np.array([1, 1]), np.array([5, 4]), values)
    if not fits:
        with pytest.raises(errors.BadSamples, match="row 1: ") as caught:
            list(made)
        assert caught.value.facts["row"] == 1
        return
    (found,) = decode.columns([burst.data for burst in made], layouts).samples.values()
    np.testing.assert_array_equal(found.values, values[::-1].astype(codec_layout.SampleType(kind).dtype))


def test_the_row_in_an_error_counts_from_the_first_batch() -> None:
    """A bad row in a later batch or group is named by its place among all rows, nulls included."""
    good = pa.record_batch({"channel": [1, 2, 3], "time": [1, 2, 3], "value": pa.array([1.0, None, 3.0])})
    bad = pa.record_batch({"channel": [1, 2, 3], "time": [1, 2, 3], "value": pa.array([None, None, 0.5])})
    layouts = codec_layout.Plan(default=codec_layout.Layout(codec_layout.SampleType.INT32))
    for group_rows in (2, 100):
        encoder = encode.Encoder(layouts, encode.Options(group_rows=group_rows))
        with pytest.raises(errors.BadSamples, match=r"row 5: 0\.5 can't be a sample of type int32"):
            list(encoder.long([good, bad]))


def test_wide_columns_that_do_not_fit_are_refused() -> None:
    """A column that is missing, short, or of a channel that can't be."""
    batch = pa.record_batch({"time": [1, 2], "a": [1.0, 2.0]})
    with pytest.raises(errors.BadSamples, match="no single column 'b'"):
        list(encode.Encoder().wide([batch], {"b": 1}))
    with pytest.raises(errors.BadSamples, match="several columns feed one channel"):
        list(encode.Encoder().wide([batch], {"a": 1, "time": 1}))
    with pytest.raises(errors.BadSamples, match="channel 1 has 1 values for 2 times"):
        list(encode.Encoder().table(np.arange(2), {1: np.ones(1)}))
    with pytest.raises(errors.BadSamples, match="channel 4294967296 is not between"):
        list(encode.Encoder().table(np.arange(2), {2**32: np.ones(2)}))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"event_definition_id": 2**31}, "row 0: "),
        ({"event_definition_id": None}, "row 0: the event definition is null"),
        ({"time": None}, "row 0: the time is null"),
        ({"raw_data": [None]}, "row 0: "),
    ],
)
def test_events_that_can_not_be_encoded_are_refused(row: dict[str, Any], words: str) -> None:
    """A definition, time or number that does not fit is an error with its row."""
    columns = {"event_definition_id": 1, "time": 5, "raw_data": [1.0]} | row
    types = {"event_definition_id": pa.int64(), "time": pa.int64(), "raw_data": pa.list_(pa.float64())}
    batch = pa.record_batch({name: pa.array([value], types[name]) for name, value in columns.items()})
    with pytest.raises(errors.BadSamples, match=words):
        list(event_messages.from_batches([batch]))


@pytest.mark.parametrize("bad", [{"target_bytes": 0}, {"target_bytes": 2**20}, {"group_rows": 0}, {"level": 13}])
def test_options_out_of_range_are_refused(bad: dict[str, int]) -> None:
    """Options that would break a reader or an encoder are errors at once."""
    with pytest.raises(errors.BadConfiguration, match="out of range"):
        encode.Options(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("channel", "layout"),
    [
        (-1, codec_layout.Layout()),
        (2**32, codec_layout.Layout()),
        (1, codec_layout.Layout(interval_ns=5)),
        (1, codec_layout.Layout(interval_ns=-1)),
    ],
)
def test_plans_out_of_range_are_refused(channel: int, layout: codec_layout.Layout) -> None:
    """A plan that nobody could follow is an error at once."""
    with pytest.raises(errors.BadSamples, match="channel"):
        codec_layout.Plan([(channel, layout)])
