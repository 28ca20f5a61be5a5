"""Repeated events of the log: each is written or counted."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics.log_limiter import EVENTS_PER_WINDOW, WINDOW_S, LogLimiter


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3)), max_size=200))
def test_everything_is_said_or_counted(steps: list[tuple[str, float]]) -> None:
    """However many of whatever kind come whenever: lines and counts add up, and no window has more than a few lines."""
    now_s = 0.0
    repeats = LogLimiter(lambda: now_s)
    lines: dict[str, list[float]] = {}
    counted: dict[str, int] = {}
    for kind, pause_s in steps:
        now_s += pause_s
        if (shown := repeats.admit({"event": kind, "entry": now_s})) is not None:
            lines.setdefault(kind, []).append(now_s)
            counted[kind] = counted.get(kind, 0) + shown.get("repeats", 0)
    for event, count in repeats.finished(is_last=True):
        counted[event["repeated"]] = counted.get(event["repeated"], 0) + count
    for kind in "abc":
        sent = sum(one == kind for one, _ in steps)
        assert len(lines.get(kind, [])) + counted.get(kind, 0) == sent
        for at_s in lines.get(kind, []):
            near = [one for one in lines[kind] if at_s <= one < at_s + WINDOW_S]
            assert len(near) <= 2 * EVENTS_PER_WINDOW


def test_each_session_has_its_own_say() -> None:
    """What happened to each of many sessions is never left out."""
    repeats = LogLimiter(lambda: 0.0)
    assert all(repeats.admit({"event": "session_lost_data", "session": f"s{n}"}) for n in range(5000))
