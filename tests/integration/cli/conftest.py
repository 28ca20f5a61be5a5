"""A catalogue with rows, for tests of the command line."""

import pytest

from rta_supervisor.settings import settings
from tests.integration.cli.catalogue_content import ROWS, save
from tests.support import postgres


@pytest.fixture
def catalogue(
    catalogue_settings: settings.CatalogueSettings, monkeypatch: pytest.MonkeyPatch
) -> settings.CatalogueSettings:
    """A catalogue with `ROWS`, of each kind, that commands find by their environment."""
    save(catalogue_settings, ROWS)
    for name, value in postgres.environment(catalogue_settings).items():
        monkeypatch.setenv(name, value)
    return catalogue_settings
