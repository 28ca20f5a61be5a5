"""What tests of the gateway share."""

from collections.abc import Iterator

import pytest

from rta_supervisor.settings import settings
from tests.support import rest_gateway, supervisors
from tests.support.rest_gateway import RestGateway


@pytest.fixture
def catalogue_path(supervisor: supervisors.Supervisor) -> str:
    """The file of the supervisor's catalogue."""
    [path] = supervisor.directory.glob("rta-supervisor/*.sqlite")
    return str(path)


@pytest.fixture
def gateway(url: str, catalogue_path: str) -> Iterator[RestGateway]:
    """A gateway beside a supervisor, with its catalogue."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url), catalogue=settings.CatalogueSettings(path=catalogue_path)
    )
    with rest_gateway.running(config) as running:
        yield running
