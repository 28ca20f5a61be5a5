"""Options that several commands share."""

from rta_supervisor.cli import options
from rta_supervisor.control import client


def test_the_default_timeout_is_that_of_the_client() -> None:
    """The number is written twice so that a command does not import the client; both are the same."""
    assert options.REPLY_TIMEOUT_S == client.TIMEOUT_S
