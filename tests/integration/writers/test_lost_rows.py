"""Rows that Redis acknowledged in an earlier epoch and lost."""

import pytest
import redis

from rta_wire import errors
from rta_writers.options.target import Target
from tests.integration.writers.appends import Make, put


def test_what_an_earlier_epoch_lost_is_told_by_the_next(client: redis.Redis, appender: Make, target: Target) -> None:
    """Redis went back to before the end of an epoch. Its writer is at the next one, which would begin without a gap."""
    put(appender(epoch=3), 5)
    marks = target.keys.marks(target.stream, target.stream_session_id)
    old = client.hget(marks, "u")
    assert old is not None
    put(appender(epoch=4), 5)
    client.hset(marks, "u", old)
    late = appender(epoch=5)
    with pytest.raises(errors.AppendGap, match="at row 0 of epoch 4: going on at row 5"):
        put(late, 5)
    late.close()
    put(appender(epoch=5), 5)
    put(appender(epoch=5), 5)
    put(appender(epoch=6), 5)
    client.hset(marks, "u", old)
    put(appender(epoch=6), 5)
