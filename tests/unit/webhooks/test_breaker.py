"""The breaker of a webhook target: when it opens and closes."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.webhooks.breaker import Breaker


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 10)), max_size=50))
def test_a_breaker_is_open_after_failures_in_a_row(attempts: list[tuple[bool, float]]) -> None:
    """Compared with counting the failures since the last success."""
    breaker = Breaker(failures=3, open_s=5)
    now_s = 100.0
    failures = 0
    last_failure_s = 0.0
    for is_success, pause_s in attempts:
        now_s += pause_s
        if is_success:
            assert breaker.record_success() == (failures >= 3)
            failures = 0
        else:
            failures += 1
            last_failure_s = now_s
            assert breaker.record_failure(now_s) == (failures == 3)
        assert breaker.wait_s(now_s) == (last_failure_s + 5 - now_s if failures >= 3 else 0)
        assert breaker.wait_s(now_s + 5) == 0, "after the pause it is tried"
