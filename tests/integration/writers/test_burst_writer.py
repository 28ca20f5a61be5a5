"""The burst writer: it goes on where it was killed, and refuses what can't be written."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.control.totals import Mark
from rta_writers.options.target import Target
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
    with pytest.raises(errors.Usage, match=r"epoch is .*: it is a whole number between 0 and"):
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
