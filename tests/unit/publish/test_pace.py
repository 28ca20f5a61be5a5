"""How often time ranges are told, by what the calls cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.publish import pace
from rta_supervisor.publish.pace import Pace

EVERY_S = 5.0


def run(calls_per_period: int, *, cost_s: float, latency_s: float, spans: int = 40) -> tuple[Pace, float]:
    """Spans of two seconds with that many sessions, each of whose calls costs so much. Gives the pace and the cores
    that it takes at the end."""
    made = Pace(EVERY_S)
    cores = 0.0
    for _ in range(spans):
        calls = calls_per_period / made.period_s * 2
        cores = calls * cost_s / 2
        made.note(elapsed_s=2, busy_s=min(2.0, calls * latency_s), cpu_s=min(2.0, calls * cost_s))
    return made, cores


def test_what_can_be_kept_up_is_kept_up() -> None:
    """Ten thousand sessions at 0.2 ms a call need 0.4 cores, and the period stays."""
    made, cores = run(10_000, cost_s=0.0002, latency_s=0.0002)
    assert made.period_s == EVERY_S
    assert not made.is_slowed
    assert cores == pytest.approx(0.4)


@given(st.integers(1, 60_000), st.floats(0.00005, 0.0004))
def test_no_more_than_the_share_of_a_core_is_taken(sessions: int, cost_s: float) -> None:
    """The period stretches until the calls fit, and no further than it may."""
    made, cores = run(sessions, cost_s=cost_s, latency_s=0.00001)
    assert EVERY_S <= made.period_s <= pace.PERIOD_MAX_S
    assert cores <= 0.6 or made.period_s == pytest.approx(pace.PERIOD_MAX_S, rel=0.01)


def test_it_returns_to_the_settings() -> None:
    """Once the load is gone the period is that of the settings again."""
    made, _ = run(20_000, cost_s=0.0004, latency_s=0.0004)
    assert made.is_slowed
    for _ in range(40):
        made.note(elapsed_s=2, busy_s=0.01, cpu_s=0.01)
    assert made.period_s == EVERY_S


def test_a_service_that_is_slow_slows_down() -> None:
    """Calls that cost nothing and take long stretch the period as well."""
    made, _ = run(10_000, cost_s=0.00001, latency_s=0.001)
    assert made.period_s > 2 * EVERY_S
