"""Settings of the HTTP server: those that are refused."""

import pytest

from rta_supervisor.settings import settings
from rta_wire import errors


@pytest.mark.parametrize("host", ["10.0.0.1", "::", "example.com"])
def test_an_address_other_than_loopback_needs_a_token(host: str) -> None:
    """An address that others can reach is refused without a token."""
    with pytest.raises(errors.BadConfiguration, match=r"http\.token"):
        settings.load(environ={"RTA_HTTP__HOST": host})
    assert settings.load(environ={"RTA_HTTP__HOST": host, "RTA_HTTP__TOKEN": "x"}).http.host == host
