"""Health of a supervisor whose Redis answers with errors."""

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


async def test_a_redis_that_answers_with_errors_is_not_ready() -> None:
    """A Redis that is busy with a script makes the supervisor unready and does not end it."""
    with (
        server.running() as redis_server,
        redis_client.connect(redis_server.url) as client,
        redis_client.connect(redis_server.url) as busy_client,
    ):
        client.config_set("busy-reply-threshold", 1)
        health = Health(settings.RedisSettings(url=redis_server.url), dict)
        health.set_ready()

        def keep_busy() -> None:
            with pytest.raises(redis.exceptions.ResponseError, match="killed"):
                busy_client.eval("while true do end", 0)

        script = threading.Thread(target=keep_busy)
        script.start()
        try:
            wait_until(lambda: is_busy(client), what="a busy Redis")
            await health.probe()
            await health.probe()
            assert "BUSY" in health.readiness().reason
        finally:
            client.script_kill()
            script.join()
        await health.probe()
        assert health.readiness().is_ready
        await health._link.close()
