"""Ticks of a recorder: the way without Arrow gives what the way through Arrow gives."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_writers.options.write import WriteOptions
from rta_writers.write import fingerprint, frames
from rta_writers.write.ticks import TickEncoder
from tests.unit.wire import strategies as g

SCHEMA = pa.schema({"channel": pa.int64(), "time": pa.int64(), "value": pa.float64()})
OPTIONS = {"redisUrl": "redis://host", "stream": "rig", "session": "run", "streamSessionId": "7"}

doubles = st.one_of(
    st.floats(), st.integers(0, 2**64 - 1).map(lambda bits: np.array([bits], np.uint64).view("f8").item())
)
times = st.one_of(g.times, st.integers(-(2**63), 2**63 - 1))
rows = st.lists(st.tuples(g.channel_ids, times, doubles), min_size=1, max_size=60, unique_by=lambda row: row[0])


def ticks(**options: str) -> tuple[TickEncoder, frames.LongEncoder]:
    encoder = frames.choose_encoder(WriteOptions.parse({**OPTIONS, **options}), SCHEMA)
    assert isinstance(encoder, frames.LongEncoder)
    return TickEncoder(encoder), encoder


@g.thorough
@given(rows=rows, skipped=st.integers(0, 59), are_arrays=st.booleans())
def test_a_tick_has_the_bursts_and_the_fingerprint_of_its_rows(
    rows: list[tuple[int, int, float]], skipped: int, are_arrays: bool
) -> None:
    """Of rows of any order, time and bits, whole and without those that are written."""
    lists = [list(column) for column in zip(*rows, strict=True)]
    arrays = [np.array(column, dtype) for column, dtype in zip(lists, ("i8", "i8", "f8"), strict=True)]
    maker, encoder = ticks()
    tick = maker.take(*(arrays if are_arrays else lists))
    assert tick is not None
    batch = pa.record_batch([pa.array(column) for column in arrays], SCHEMA.names)
    skipped %= len(rows)
    assert tick.num_rows == len(rows)
    assert list(tick.encode_rows(skipped)) == list(encoder.bursts(batch.slice(skipped)))
    assert tick.fingerprint_rows(len(rows)) == fingerprint.fingerprint(batch)
    assert tick.fingerprint_rows(skipped) == fingerprint.first_rows(batch, skipped)
    assert tick.to_batch().equals(batch) or any(np.isnan(arrays[2]))


@pytest.mark.parametrize(
    "columns",
    [
        ([], [], []),
        ([1, 1], [1, 2], [0.5, 0.5]),
        ([1], [1, 2], [0.5, 0.5]),
        ([-1], [1], [0.5]),
        ([2**32], [1], [0.5]),
        ([2**63], [1], [0.5]),
        ([1], [2**63], [0.5]),
        ([1.0], [1], [0.5]),
        ([True], [1], [0.5]),
        ([1], [None], [0.5]),
        ([1], [1], [2**53 + 1]),
        ([1], [1], [True]),
        ([1], [1], [None]),
        ([np.int32(1)], [1], [0.5]),
        ([1], [1], [np.float32(0.5)]),
        ([1], [1], ["0.5"]),
        (np.array([1], np.uint64), [1], [0.5]),
        (np.array([1.0]), [1], [0.5]),
        ([1], [1], np.array([2**53 + 1])),
        ([1], [1], np.array([True])),
        ([1], np.array([[1]]), [0.5]),
        ([1], [1], np.ma.masked_array([0.5], [True])),
        ([1], [1], np.array([0.5], ">f8")),
        (list(range(513)), [1] * 513, [0.5] * 513),
    ],
)
def test_what_is_no_tick_goes_another_way(columns: tuple[Any, Any, Any]) -> None:
    """Nothing is taken for a number that is none, and a mistake is found by the code that names it."""
    maker, _ = ticks()
    assert maker.take([1], [1], [0.5]) is not None
    assert maker.take(*columns) is None


def test_a_tick_that_fills_a_group_goes_another_way() -> None:
    """A full group is sent at once: a tick waits for `flush` or the timer."""
    maker, _ = ticks(groupRows="100")
    assert maker.take(list(range(99)), [1] * 99, [0.5] * 99) is not None
    assert maker.take(list(range(100)), [1] * 100, [0.5] * 100) is None


@pytest.mark.parametrize("options", [{"sampleType": '{"1": "int16"}', "channels": '{"1": 1}'}, {"kind": "row"}])
def test_frames_of_other_layouts_have_no_ticks(options: dict[str, str]) -> None:
    """A template is for timestamped doubles."""
    _, encoder = ticks()
    assert encoder.has_plain_rows
    _, encoder = ticks(**options)
    assert not encoder.has_plain_rows


def test_many_sets_of_channels_take_no_more_room_than_some() -> None:
    """A recorder whose channels change all the time does not grow."""
    maker, _ = ticks()
    for channel in range(1000):
        assert maker.take([channel], [1], [0.5]) is not None
    assert len(maker._channel_sets) <= 64


@pytest.mark.parametrize(
    ("ids", "values"),
    [
        ([1, 2], [1, -2]),
        ([1, 2], [1, -2.0]),
        ([1, 2], [np.int64(1), np.float64(-2)]),
        *((np.array([1, 2], kind), [1.0, -2.0]) for kind in ("i1", "i2", "i4", "u1", "u2", "u4")),
        *(([1, 2], np.array([1, -2], kind)) for kind in ("i1", "i2", "i4", "i8", "f4", "f8")),
    ],
)
def test_a_tick_may_have_other_types_of_numbers(ids: Any, values: Any) -> None:
    """Each of them is a double, so it is the tick of these: no recorder takes the long way because of a type."""
    maker, _ = ticks()
    tick, same = maker.take(ids, [7, 8], values), maker.take([1, 2], [7, 8], [1.0, -2.0])
    assert tick is not None
    assert same is not None
    assert tick.to_batch().equals(same.to_batch())
    assert list(tick.encode_rows(0)) == list(same.encode_rows(0))


def test_elements_of_an_array_are_a_tick() -> None:
    """A recorder that makes lists of its arrays writes what it would write of the arrays."""
    maker, _ = ticks()
    columns = np.arange(3), np.arange(3) + 7, np.arange(3) / 2
    tick, same = maker.take(*columns), maker.take(*map(list, columns))
    assert tick is not None
    assert same is not None
    assert list(same.encode_rows(0)) == list(tick.encode_rows(0))
    assert same.fingerprint_rows(3) == tick.fingerprint_rows(3)
