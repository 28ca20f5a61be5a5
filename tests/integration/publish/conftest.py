"""What tests of publishing share."""

from collections.abc import AsyncIterator, Iterator

import pytest

from rta_supervisor.catalogue import factory
from rta_supervisor.publish import publisher as publisher_module
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from tests.integration.publish.publishing_scene import Scene
from tests.support.toolkit_services import ToolkitServices


@pytest.fixture
def services() -> Iterator[ToolkitServices]:
    """A Session Service and a Config Service that run."""
    made = ToolkitServices()
    with made.running():
        yield made


@pytest.fixture
async def scene(
    url: str,
    link: Link,
    catalogue_settings: settings.CatalogueSettings,
    services: ToolkitServices,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Scene]:
    monkeypatch.setattr(publisher_module, "FIRST_RETRY_S", 0.0001)
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=catalogue_settings,
        publish=settings.PublishSettings(
            session_address=services.address, config_address=services.address, timeout_s=5, breaker_open_s=0.001
        ),
    )
    catalogue = factory.create(config)
    made = Scene(link, catalogue, services, config)
    yield made
    await made.client.close()
    await catalogue.close()
