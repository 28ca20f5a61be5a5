"""The breaker of a webhook target: when it opens and closes."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.webhooks.breaker import Breaker


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 10)), max_size=50))
def test_a_breaker_is_open_after_failures_in_a_row(story: list[tuple[bool, float]]) -> None:
    """Compared with counting the failures at the end of the story."""
    breaker = Breaker(failures=3, open_s=5)
    now_s = 100.0
    row = 0
    last_failure_s = 0.0
    for is_good, pause_s in story:
        now_s += pause_s
        if is_good:
            assert breaker.record_success() == (row >= 3)
            row = 0
        else:
            row += 1
            last_failure_s = now_s
            assert breaker.record_failure(now_s) == (row == 3)
        assert breaker.wait_s(now_s) == (last_failure_s + 5 - now_s if row >= 3 else 0)
        assert breaker.wait_s(now_s + 5) == 0, "after the pause one may try"
