"""Which servers are refused: too old, evicting, read-only, full."""

import pytest

from rta_supervisor.settings import settings
from rta_supervisor.transport import server_check


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"redis_version": "6.2.14"}, "Redis 6.2.14"),
        ({"redis_version": "7.2.4", "valkey_version": "7.0.1"}, "Valkey 7.0.1"),
        ({"redis_version": "7.4.0", "maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ({"redis_version": "7.0.0", "role": "slave", "slave_read_only": "1"}, "replica"),
        ({"redis_version": "7.0.0", "maxmemory": "100", "used_memory": "100"}, "full"),
    ],
)
def test_a_server_that_would_lose_sessions_is_refused(info: dict[str, str], reason: str) -> None:
    """Too old, evicting, read-only and full servers are each named as such."""
    assert reason in str(server_check.find_problem(info, settings.RedisSettings()))


def test_a_good_server_is_taken() -> None:
    """The oldest supported version without a limit of memory is taken, and one that evicts if that is allowed."""
    assert server_check.find_problem({"redis_version": "7.0.15", "maxmemory": "0"}, settings.RedisSettings()) is None
    evicting = {"redis_version": "7.0.15", "maxmemory_policy": "allkeys-lru"}
    assert server_check.find_problem(evicting, settings.RedisSettings(allow_eviction=True)) is None
