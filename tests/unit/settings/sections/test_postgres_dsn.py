"""Connection parameters of PostgreSQL: errors that do not show a password."""

import pytest

from rta_supervisor.catalogue.postgres import PostgresCatalogue
from rta_supervisor.settings import settings
from rta_wire import errors


def test_a_malformed_url_is_reported_without_its_password() -> None:
    """The message of libpq, which would quote a part of the password, is not shown."""
    with pytest.raises(errors.BadConfiguration, match="it is no URL of a PostgreSQL") as caught:
        PostgresCatalogue(settings.CatalogueSettings(url="postgresql://u:se/cret@h:5432/db?nonsense=1"))
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None
