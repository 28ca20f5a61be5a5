"""Settings of the catalogue: which are refused, and passwords that stay hidden."""

import pytest

from rta_supervisor.settings import redaction, settings
from rta_wire import errors


@pytest.mark.parametrize(
    ("values", "where", "reason"),
    [
        ({"url": "mysql://h/db"}, "catalogue.url", "does not begin with postgresql://"),
        ({"url": "postgresql://h/db", "path": "/c.sqlite"}, "catalogue.url", "catalogue.path too"),
        ({"url": "postgresql://u:p@h/db", "password_file": "/p"}, "catalogue.password_file", "a password too"),
        ({"password_file": "/p"}, "catalogue.password_file", "name one"),
        ({"url": "postgresql://h/db", "schema": 'x"; DROP'}, "catalogue.schema", "other characters"),
        ({"url": "postgresql://h/db", "timeout_s": "0"}, "catalogue.timeout_s", "not above 0"),
    ],
)
def test_settings_that_can_not_be(values: dict[str, str], where: str, reason: str) -> None:
    """Each wrong value is refused by the dotted name of its setting."""
    environ = {f"RTA_CATALOGUE__{name.upper()}": value for name, value in values.items()}
    with pytest.raises(errors.BadConfiguration, match=reason) as caught:
        settings.load(None, environ)
    assert where in str(caught.value)


def test_passwords_of_the_catalogue_are_hidden() -> None:
    """A password in front of the host and one in the query are hidden, percent-encoded and decoded."""
    config = settings.Settings(catalogue=settings.CatalogueSettings(url="postgresql://u:ros%65bud@h/db?password=kane1"))
    assert set(redaction.secrets(config)) == {"ros%65bud", "rosebud", "kane1"}
    assert redaction.redacted("url", config.catalogue.url) == "postgresql://u:***@h/db?password=***"
