"""The limit of connections: a place that is given back can be taken again."""

import pytest

from rta_supervisor.http import limits as http_limits


def test_seats_come_back() -> None:
    """Also where the one who sat there fell over."""
    seats = http_limits.ConnectionLimit(1)
    with seats.slot():
        assert seats.is_reached
    with pytest.raises(ZeroDivisionError), seats.slot():
        _ = 1 / 0
    assert not seats.is_reached
