"""What tests of both kinds of catalogue share."""

from collections.abc import AsyncIterator

import pytest

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.settings import settings
from tests.integration.catalogue import backends


@pytest.fixture
async def backend(catalogue_settings: settings.CatalogueSettings) -> AsyncIterator[Catalogue]:
    backend = backends.create(catalogue_settings)
    yield backend
    await backend.close()
