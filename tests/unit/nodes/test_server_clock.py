"""The estimate of the server's time: small corrections and jumps."""

from rta_supervisor.nodes.server_clock import ServerClock


def test_the_clock_follows_the_server_and_says_where_it_jumped() -> None:
    """A small correction is no jump; a large one is, forwards and backwards, and earlier times count no more."""
    clock = ServerClock()
    start_ms = clock()
    assert not clock.adjust_to(start_ms + 500)
    assert 500 <= clock() - start_ms < 5000
    assert clock.steady_since_ms <= start_ms
    assert clock.adjust_to(start_ms + 3_600_000)
    assert clock.steady_since_ms >= start_ms + 3_600_000
    assert clock.adjust_to(start_ms)
    assert start_ms <= clock.steady_since_ms <= clock() < start_ms + 5000
