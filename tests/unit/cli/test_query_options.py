"""Times on the command line."""

import pytest

from rta_supervisor.cli import query_options
from rta_supervisor.cli.commands import archive as command
from rta_wire import errors

START_NS = 1_700_000_000_123_456_789

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


def test_moments() -> None:
    """Nanoseconds stay exact, a zone counts, and a date alone is its first moment in UTC."""
    assert query_options.parse_time_ns("1970-01-01") == 0
    assert query_options.parse_time_ns("1969-12-31T23:59:59.999999999Z") == -1
    assert query_options.parse_time_ns("2023-11-14T22:13:20.123456789") == START_NS
    assert query_options.parse_time_ns("2023-11-14 23:13:20.123456789+01:00") == START_NS
    assert query_options.parse_time_ns("-5") == -5
    assert 0 <= query_options.parse_time_ns("2h") - query_options.parse_time_ns("3h") <= 3600 * 10**9
    with pytest.raises(errors.Usage):
        query_options.parse_time_ns("2023-11-14T22:13:20.1234567890Z")
