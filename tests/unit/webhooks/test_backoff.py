"""The pauses between attempts of a delivery."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.webhooks.backoff import BACKOFF_MAX_S, backoff_s


@given(st.integers(1, 100), st.floats(0.001, 100), st.floats(0, 1))
def test_pauses_grow_and_are_bounded(attempt: int, first_s: float, jitter: float) -> None:
    """Never shorter than half of the first, never longer than the bound, and no shorter than after fewer attempts."""
    pause_s = backoff_s(attempt, first_s, jitter)
    assert first_s / 2 <= pause_s <= BACKOFF_MAX_S
    assert backoff_s(attempt + 1, first_s, jitter) >= pause_s
