"""Settings of a PostgreSQL catalogue: which are refused, and passwords that stay hidden."""

import pytest

from rta_supervisor.catalogue.postgres import PostgresCatalogue
from rta_supervisor.settings import redaction, settings
from rta_wire import errors

Config = settings.CatalogueSettings


@pytest.mark.parametrize(
    ("given", "where", "reason"),
    [
        ({"url": "mysql://h/db"}, "catalogue.url", "does not begin with postgresql://"),
        ({"url": "postgresql://h/db", "path": "/c.sqlite"}, "catalogue.url", "catalogue.path too"),
        ({"url": "postgresql://u:p@h/db", "password_file": "/p"}, "catalogue.password_file", "a password too"),
        ({"password_file": "/p"}, "catalogue.password_file", "name one"),
        ({"url": "postgresql://h/db", "schema": 'x"; DROP'}, "catalogue.schema", "other characters"),
        ({"url": "postgresql://h/db", "timeout_s": "0"}, "catalogue.timeout_s", "not above 0"),
    ],
)
def test_settings_that_can_not_be(given: dict[str, str], where: str, reason: str) -> None:
    """Each is refused before anything starts."""
    environ = {f"RTA_CATALOGUE__{name.upper()}": value for name, value in given.items()}
    with pytest.raises(errors.BadConfiguration, match=reason) as caught:
        settings.load(None, environ)
    assert where in str(caught.value)


def test_an_address_that_can_not_be_is_said_without_its_password() -> None:
    """What libpq says of it would quote a part."""
    with pytest.raises(errors.BadConfiguration, match="it is no URL of a PostgreSQL") as caught:
        PostgresCatalogue(Config(url="postgresql://u:se/cret@h:5432/db?nonsense=1"))
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_passwords_of_the_catalogue_are_hidden() -> None:
    """In an address before the host or behind the question mark, as it is written and as it is."""
    config = settings.Settings(catalogue=Config(url="postgresql://u:ros%65bud@h/db?password=kane1"))
    assert set(redaction.secrets(config)) == {"ros%65bud", "rosebud", "kane1"}
    assert redaction.redacted("url", config.catalogue.url) == "postgresql://u:***@h/db?password=***"
