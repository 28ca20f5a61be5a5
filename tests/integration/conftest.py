"""What tests of the server side share."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.embedded import server
from rta_supervisor.recovery.recovery import Recovery, RecoverySteps
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import limits
from rta_writers.options.target import Target
from tests.support import supervisor_parts, supervisors
from tests.support.supervisor_parts import World


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
        await function_loader.load(link)
        await link.close()

    with server.running() as own, redis.Redis.from_url(own.url, protocol=2) as client:
        anyio.run(load, own.url)
        client.response_callbacks.clear()
        yield client


@pytest.fixture
async def link(url: str) -> AsyncIterator[Link]:
    link = Link(settings.RedisSettings(url=url))
    await function_loader.load(link)
    yield link
    await link.close()


@pytest.fixture
async def catalogue(tmp_path: Path) -> AsyncIterator[SqliteCatalogue]:
    made = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    yield made
    await made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten entries, so that there are many."""
    monkeypatch.setattr(limits, "COLD_BATCH_MAX_ENTRIES", 10)


@pytest.fixture
def target(url: str, client: redis.Redis) -> Target:
    """An open session of nobody's."""
    target = Target(url, "run", "rig", 7)
    client.set(target.keys.gate("rig", 7), "open", ex=60)
    return target


@pytest.fixture
async def world(url: str, tmp_path: Path) -> AsyncIterator[World]:
    config = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(config.redis)
    await function_loader.load(link)
    sessions = SessionStore(link, config)
    catalogue = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    catalogue_writer = CatalogueWriter(link, catalogue, config)
    service = supervisor_parts.service(link, config, sessions, catalogue_writer.mark_changed)
    restorer = SessionRestorer(sessions, service, RecentReports())
    recovery = Recovery(
        link, sessions, restorer, catalogue, config=supervisor_parts.required(config), steps=RecoverySteps()
    )
    yield World(link, sessions, catalogue, catalogue_writer, service, restorer, recovery)
    await catalogue.close()
    await link.close()


@pytest.fixture
def alice(url: str, daemon: supervisors.Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    """A client of a principal of its own. The test says which principals its daemon serves."""
    return rta_writers.SessionClient(url, principal="alice", timeout_s=20)


@pytest.fixture
def bob(url: str, daemon: supervisors.Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    """A client of another principal."""
    return rta_writers.SessionClient(url, principal="bob", timeout_s=20)
