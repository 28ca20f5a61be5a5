"""Times on the command line."""

import pytest

from rta_supervisor.cli.commands import archive as command
from rta_wire import errors

NOON_MS = 1_778_932_800_000
"""2026-05-16, 12:00 UTC."""


def test_times_of_since() -> None:
    """Dates, moments and spans; anything else is refused."""
    assert command._since_ms(None) == 0
    assert command._since_ms("2026-05-16") == NOON_MS - 12 * 3_600_000
    assert command._since_ms("2026-05-16T14:00+02:00") == NOON_MS
    assert 0 <= command._since_ms("1h") - command._since_ms("60m") < 1000
    with pytest.raises(errors.Usage, match="is no time"):
        command._since_ms("yesterday")
