"""What tests of the server side share."""

from collections.abc import Iterator

import anyio
import pytest
import redis

from rta_supervisor import settings
from rta_supervisor.embedded import server
from rta_supervisor.link import Link


@pytest.fixture(scope="session")
def raw() -> Iterator[redis.Redis]:
    """A client that gives answers as Redis gave them, to a server of its own that has our functions."""

    async def load(url: str) -> None:
        link = Link(settings.RedisSettings(url=url))
        await link.load_functions()
        await link.close()

    with server.running() as own, redis.Redis.from_url(own.url, protocol=2) as client:
        anyio.run(load, own.url)
        client.response_callbacks.clear()
        yield client
