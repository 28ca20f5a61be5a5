"""Repeated events of the log: each is written or counted."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics.log_limiter import EVENTS_PER_WINDOW, WINDOW_S, LogLimiter


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3)), max_size=200))
def test_everything_is_logged_or_counted(steps: list[tuple[str, float]]) -> None:
    """For any events at any times, lines and counts add up, and no window has more than a few lines."""
    now_s = 0.0
    limiter = LogLimiter(lambda: now_s)
    lines: dict[str, list[float]] = {}
    counted: dict[str, int] = {}
    for kind, pause_s in steps:
        now_s += pause_s
        if (event := limiter.admit({"event": kind, "entry": now_s})) is not None:
            lines.setdefault(kind, []).append(now_s)
            counted[kind] = counted.get(kind, 0) + event.get("repeats", 0)
    for fields, count in limiter.finished(is_last=True):
        counted[fields["repeated"]] = counted.get(fields["repeated"], 0) + count
    for kind in "abc":
        sent = sum(step_kind == kind for step_kind, _ in steps)
        assert len(lines.get(kind, [])) + counted.get(kind, 0) == sent
        for at_s in lines.get(kind, []):
            near = [line_s for line_s in lines[kind] if at_s <= line_s < at_s + WINDOW_S]
            assert len(near) <= 2 * EVENTS_PER_WINDOW


def test_each_session_has_its_own_limit() -> None:
    """Events of different sessions are of different kinds: one event of each of many sessions is logged."""
    limiter = LogLimiter(lambda: 0.0)
    assert all(limiter.admit({"event": "session_lost_data", "session": f"s{n}"}) for n in range(5000))
