"""`top` without a terminal; on one it is tested in `tests/acceptance/test_operator.py`."""

import redis

import rta_writers
from tests.support.commands import run
from tests.support.control import write


def test_top_shows_rates(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Prints the second of two readings as plain text."""
    write(client, sessions.open("run-1", stream="rig"), 5)
    result = run(url, "top", "--every-s", "0.1")
    assert result.code == 0
    assert "samples/s" in result.out
    assert "run-1" in result.out
    assert "\x1b" not in result.out
