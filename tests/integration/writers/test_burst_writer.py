"""The burst writer: it goes on where it was killed, and refuses what can't be written."""

import itertools
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rta_writers
from rta_wire import errors
from rta_wire.control.totals import Mark
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from tests.integration.writers.tasks import expected, long
from tests.support import samples, stream_content


def test_a_burst_writer_goes_on_where_it_was_killed(client: redis.Redis, target: Target) -> None:
    """Plain Python: the same unit and epoch written again from the start adds only what is missing."""
    killed = rta_writers.BurstWriter(target.options(), unit="recorder")
    killed.write(long(700))
    killed.flush()
    with pytest.warns(ResourceWarning, match="700 rows, open\\) was not closed"):
        del killed
    with rta_writers.BurstWriter(target.options(), unit="recorder") as writer:
        writer.samples(*(long(1000).column(name) for name in ("channel", "time", "value")))
    assert stream_content.samples(client, "rig", 7) == expected(1000)
    raw: Any = client.hget(target.keys.marks("rig", 7), "recorder/0")
    mark = Mark.from_text(raw.decode())
    assert (mark.rows, mark.totals.samples) == (1000, 1000)


INTEGERS = st.integers(-(2**53), 2**53)
VALUES = st.one_of(
    st.lists(st.floats(-1e6, 1e6), min_size=1),
    st.lists(INTEGERS, min_size=1),
    st.lists(st.one_of(st.none(), INTEGERS, st.floats(-1e6, 1e6)), min_size=1),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.decimals(-999, 999, places=2), min_size=1),
    st.lists(INTEGERS.map(lambda number: number << 9), min_size=1),
    st.lists(st.integers(-128, 127), min_size=1).map(lambda values: np.array(values, np.int8)),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1).map(lambda values: np.array(values, np.float32)),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, min_size=2, max_size=4))
def test_samples_of_one_writer_may_have_other_types(client: redis.Redis, target: Target, calls: list[Any]) -> None:
    """A recorder that gives whole numbers at first, and others later."""
    client.delete("stream:rig")
    times, written = itertools.count(1), []
    with rta_writers.BurstWriter(target.options()) as writer:
        for values in calls:
            rows = [(1, next(times), value) for value in values]
            writer.samples(np.full(len(rows), 1, np.uint16), [time for _, time, _ in rows], values)
            written += [(channel, time, float(value)) for channel, time, value in rows if value is not None]
    assert sorted(stream_content.samples(client, "rig", 7)) == written


def test_whole_numbers_of_channels_of_integers_may_come_as_doubles(client: redis.Redis, target: Target) -> None:
    """And others are refused for what they are, whatever came before."""
    options = {**target.options(), "channels": '{"gear": 1}', "sampleType": '{"gear": "int16"}'}
    with rta_writers.BurstWriter(options) as writer:
        writer.samples(["gear"], [1], [4])
        writer.samples(["gear"], [2], [5.0])
        with pytest.raises(errors.BadSamples, match=r"row 0: 5\.5 can't be a sample of type int16"):
            writer.samples(["gear"], [3], [5.5])
    stored = stream_content.samples(client, "rig", 7, WriteOptions.parse(options).layout_plan())
    assert stored == [(1, 1, 4), (1, 2, 5)]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("times", "values", "reason"),
    [
        ([2, 3], [4, 2**53 + 1], "row 1: 9007199254740993 can't be a sample of type double"),
        ([2, 3], [None, 2**53 + 1], "row 1: 9007199254740993 can't be a sample of type double"),
        ([2.0, 3.0], [1, 2], "Column 'time' is double|have changed .* to .*time double"),
        ([2, 3], ["4", "5"], "Column 'value' is string|have changed .* to .*value string"),
    ],
)
def test_samples_that_are_refused_leave_nothing(
    client: redis.Redis, target: Target, is_first: bool, times: list[Any], values: list[Any], reason: str
) -> None:
    """Nothing of that call is written, and what comes after it may be of any type, also where it was the first."""
    with rta_writers.BurstWriter(target.options()) as writer:
        if not is_first:
            writer.samples([1], [1], [0.5])
        with pytest.raises((errors.Usage, errors.BadSamples), match=reason):
            writer.samples([1, 1], times, values)
        writer.samples([1], [4], [2.5])
    assert sorted(stream_content.samples(client, "rig", 7)) == [(1, 1, 0.5), (1, 4, 2.5)][is_first:]


def test_a_burst_writer_is_not_sent_to_other_processes(target: Target) -> None:
    """The error says what to do, before a closure of Spark is shipped."""
    with (
        rta_writers.BurstWriter(target.options()) as writer,
        pytest.raises(errors.Usage, match="make one in each task"),
    ):
        pickle.dumps(writer)


def test_a_burst_writer_refuses_other_columns_and_closed_sessions(client: redis.Redis, target: Target) -> None:
    """Mistakes are named at once."""
    with rta_writers.BurstWriter(target.options()) as writer:
        writer.write(long(5))
        with pytest.raises(errors.Usage, match="The columns have changed"):
            writer.write(pa.record_batch({"time": [1]}))
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        rta_writers.BurstWriter(target.options())


@pytest.mark.parametrize("epoch", [1.5, -1, 2**70, True, "1", None, float("nan")])
def test_an_epoch_that_is_no_number_of_one_is_refused_before_anything_is_written(
    client: redis.Redis, target: Target, epoch: Any
) -> None:
    """A mark with it could not be read again, by nobody."""
    before = set(client.scan_iter("*"))
    with pytest.raises(errors.Usage, match=r"Argument \'epoch\' is .*: it has to be a whole number between 0 and"):
        rta_writers.BurstWriter(target.options(), unit="u", epoch=epoch)
    assert set(client.scan_iter("*")) == before


@pytest.mark.parametrize("unit", [b"u", "", 7, "x" * 300, "a\nb", "{u}", "\ud800"])
def test_a_unit_that_is_no_name_is_refused_before_anything_is_written(
    client: redis.Redis, target: Target, unit: Any
) -> None:
    """Its mark would be one that no supervisor and no writer can read."""
    before = set(client.scan_iter("*"))
    with pytest.raises(errors.BadName, match=r"^Unit "):
        rta_writers.BurstWriter(target.options(), unit=unit)
    assert set(client.scan_iter("*")) == before


def test_the_mark_of_another_program_is_no_concern_of_a_close(client: redis.Redis, target: Target) -> None:
    """One that can't be read, from a program that wrote it by itself, does not keep other units from closing."""
    marks = target.keys.marks(target.stream, target.stream_session_id)
    client.hset(marks, "theirs/0", "1.5 2 - -")
    client.hset(marks, b"\xff/0", "nonsense")
    epoch: Any = np.int64(3)
    with rta_writers.BurstWriter(target.options(), unit="mine", epoch=epoch) as writer:
        writer.samples([1], [samples.START_NS], [0.5])
    raw: Any = client.hget(marks, "mine/0")
    assert raw.startswith(b"3 1 ")
