"""Settings of the HTTP server: those that are refused."""

import pytest

from rta_supervisor.settings import settings
from rta_wire import errors


@pytest.mark.parametrize("host", ["10.0.0.1", "::", "example.com"])
def test_an_address_other_than_loopback_needs_a_token(host: str) -> None:
    """An address that others can reach is refused without a token."""
    with pytest.raises(errors.BadConfiguration, match=r"http\.token"):
        settings.load(environ={"RTA_HTTP__HOST": host})
    with pytest.raises(errors.BadConfiguration, match=r"RTA_HTTP__TOKEN: http\.token: .* openssl rand"):
        settings.load(environ={"RTA_HTTP__HOST": host, "RTA_HTTP__TOKEN": "x" * 15})
    assert settings.load(environ={"RTA_HTTP__HOST": host, "RTA_HTTP__TOKEN": "x" * 16}).http.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", ""])
def test_a_short_token_is_enough_on_loopback(host: str) -> None:
    """Nobody else can try tokens there."""
    assert settings.load(environ={"RTA_HTTP__HOST": host, "RTA_HTTP__TOKEN": "x"}).http.host == host


@pytest.mark.parametrize("token", [" secret", "secret ", "geheimnisträger", "a\tb", "a\nb"])
def test_a_token_that_no_header_holds_is_refused(token: str) -> None:
    """Nobody could send it."""
    with pytest.raises(errors.BadConfiguration, match=r"http\.token"):
        settings.load(environ={"RTA_HTTP__TOKEN": token})


def test_a_host_that_can_not_be_looked_up_is_refused() -> None:
    """Python's encoding of host names would raise an error of its own."""
    with pytest.raises(errors.BadConfiguration, match=r"http\.host: it is no host name"):
        settings.load(environ={"RTA_HTTP__HOST": "a..b", "RTA_HTTP__TOKEN": "x" * 16})
