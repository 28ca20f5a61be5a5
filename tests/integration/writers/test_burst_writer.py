"""The burst writer: it goes on where it was killed, and refuses what can't be written."""

from typing import Any

import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.control.totals import Mark
from rta_writers.options.target import Target
from tests.integration.writers.tasks import expected, long
from tests.support import stream_content


def test_a_burst_writer_goes_on_where_it_was_killed(client: redis.Redis, target: Target) -> None:
    """Plain Python: the same unit and epoch written again from the start adds only what is missing."""
    killed = rta_writers.BurstWriter(target.options(), unit="recorder")
    killed.write(long(700))
    killed.flush()
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
