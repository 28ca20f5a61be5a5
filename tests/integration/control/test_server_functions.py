"""Server functions of the control streams."""

import pytest
import redis

from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.transport.failures import DataLost, classify
from rta_wire import keys

NAMES = keys.Keys()


def test_a_control_stream_that_is_gone_is_told_as_a_loss(raw: redis.Redis) -> None:
    """Whichever function finds it: somebody flushed Redis, which is no reason to end."""
    raw.execute_command("FLUSHALL")
    key = NAMES.requests("default")
    for call in (
        control_functions.count_evicted(NAMES, key),
        control_functions.remove_consumer(NAMES, key, "one"),
        control_functions.acknowledge(NAMES, key, ["1-1"]),
    ):
        with pytest.raises(redis.exceptions.ResponseError) as caught:
            raw.execute_command(*call)
        assert isinstance(classify(caught.value), DataLost)
