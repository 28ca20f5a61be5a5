"""The limit of connections: one that has ended can be replaced."""

import pytest

from rta_supervisor.http import connection_limit


def test_a_connection_that_ended_counts_no_more() -> None:
    """Also if it ended with an error."""
    limit = connection_limit.ConnectionLimit(1)
    with limit.opened():
        assert limit.is_reached
    with pytest.raises(ZeroDivisionError), limit.opened():
        _ = 1 / 0
    assert not limit.is_reached
