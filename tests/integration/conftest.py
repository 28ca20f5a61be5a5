"""What tests of the server side share."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
import redis

from rta_supervisor import settings
from rta_supervisor.embedded import server
from rta_supervisor.link import Link


@pytest.fixture(params=["sqlite", "postgres"])
def catalogue_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[settings.CatalogueSettings]:
    """A catalogue that is not made yet, of each kind."""
    if request.param == "sqlite":
        yield settings.CatalogueSettings(path=str(tmp_path / "c.sqlite"))
        return
    with request.getfixturevalue("shared_postgres").schema() as config:
        yield config


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
