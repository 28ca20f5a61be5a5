"""What the supervisor makes of a Redis that answers, and not with what was asked for."""

import threading

import pytest
import redis

from rta_supervisor.embedded import server
from rta_supervisor.observe.health import Health
from rta_supervisor.settings import settings
from rta_writers.connection import redis_client
from tests.support.waiting import wait_until


def is_busy(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.exceptions.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


async def test_a_redis_that_refuses_to_answer_is_away() -> None:
    """It is busy with a script, as it may be loading its data: not ready, and no reason to end."""
    with server.running() as own, redis_client.connect(own.url) as client, redis_client.connect(own.url) as other:
        client.config_set("busy-reply-threshold", 1)
        health = Health(settings.RedisSettings(url=own.url), dict)
        health.set_not_ready("")

        def keep_busy() -> None:
            with pytest.raises(redis.exceptions.ResponseError, match="killed"):
                other.eval("while true do end", 0)

        busy = threading.Thread(target=keep_busy)
        busy.start()
        try:
            wait_until(lambda: is_busy(client), what="a busy Redis")
            await health.probe()
            await health.probe()
            assert "BUSY" in health.readiness().reason
        finally:
            client.script_kill()
            busy.join()
        await health.probe()
        assert health.readiness().is_ready
        await health._link.close()
