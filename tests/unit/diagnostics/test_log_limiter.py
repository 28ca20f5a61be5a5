"""Repeated events of the log: each is written or counted, and nobody can fill the log."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics.log_limiter import (
    KIND_PER_WINDOW,
    KINDS_MAX,
    RECOVERY_PER_WINDOW,
    SAME_PER_WINDOW,
    WINDOW_S,
    LogLimiter,
)

Events = list[tuple[str, str, float]]

EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["s1", "s2", "s3", "s4"]), st.floats(0, 3)), max_size=200
)


@given(EVENTS)
def test_everything_is_logged_or_counted(steps: Events) -> None:
    """For any events at any times, lines and counts add up, whether or not counts are asked for in between."""
    now_s = 0.0
    limiter = LogLimiter(lambda: now_s)
    told = dict.fromkeys("abc", 0)
    lines: dict[tuple[str, str], list[float]] = {}
    for number, (name, session, pause_s) in enumerate(steps):
        now_s += pause_s
        if (event := limiter.admit({"event": name, "session": session, "entry": number})) is not None:
            lines.setdefault((name, session), []).append(now_s)
            told[name] += 1 + event.get("repeats", 0)
        for fields, count in limiter.finished(is_last=number == len(steps) - 1):
            told[fields["repeated"]] += count
    for name in "abc":
        assert told[name] == sum(step[0] == name for step in steps)
    for times_s in lines.values():
        for at_s in times_s:
            near = [line_s for line_s in times_s if at_s <= line_s < at_s + WINDOW_S]
            assert len(near) <= 2 * SAME_PER_WINDOW


@given(st.integers(1, 3), st.sampled_from(["session", "target", "stream", "delivery", "whatever"]))
def test_no_field_from_outside_makes_a_kind_of_its_own(windows: int, field: str) -> None:
    """Events that differ in any such field share one limit in each window, and every suppressed one is counted."""
    now_s = 0.0
    limiter = LogLimiter(lambda: now_s)
    logged = counted = 0
    for window in range(windows):
        now_s = window * WINDOW_S
        for number in range(1000):
            logged += limiter.admit({"event": "request_cancelled", field: f"{window}-{number}"}) is not None
        counted += sum(count for _, count in limiter.finished())
    counted += sum(count for _, count in limiter.finished(is_last=True))
    assert logged == windows * KIND_PER_WINDOW
    assert logged + counted == windows * 1000


def test_an_event_that_repeats_leaves_room_for_other_sessions() -> None:
    """One session's events are cut short after a few; those of other sessions and principals are logged."""
    limiter = LogLimiter(lambda: 0.0)

    def logged(count: int, **fields: Any) -> int:
        return sum(limiter.admit({"event": "x", "entry": number, **fields}) is not None for number in range(count))

    assert logged(1000, principal="a", session="s1") == SAME_PER_WINDOW
    assert logged(2, principal="a", session="s2") == 2
    assert sum(logged(1, principal="a", session=f"t{number}") for number in range(1000)) == KIND_PER_WINDOW - 7
    assert logged(2, principal="b", session="s3") == 2
    [(fields, count)] = limiter.finished(is_last=True)
    assert fields == {"repeated": "x", "principal": "a", "sessions": 908}
    assert count == 995 + 907


def test_what_repeats_is_told_by_the_next_of_its_like_only() -> None:
    """`repeats` stands in an event that differs in nothing from those that it counts; others leave the count alone."""
    now_s = 0.0
    limiter = LogLimiter(lambda: now_s)
    for _ in range(8):
        limiter.admit({"event": "x", "session": "s1"})
    now_s = WINDOW_S
    assert limiter.admit({"event": "x", "session": "s2"}) == {"event": "x", "session": "s2"}
    assert limiter.admit({"event": "x", "session": "s1"}) == {"event": "x", "session": "s1", "repeats": 3}
    assert list(limiter.finished(is_last=True)) == []


def test_every_session_that_redis_lost_data_of_is_named() -> None:
    """A loss of data concerns many sessions at once: each has its line."""
    limiter = LogLimiter(lambda: 0.0)
    assert all(limiter.admit({"event": "session_lost_data", "session": f"s{n}"}) for n in range(RECOVERY_PER_WINDOW))
    assert limiter.admit({"event": "session_lost_data", "session": "one more"}) is None


def test_kinds_are_bounded() -> None:
    """Past the most kinds that are kept, events share one by their name."""
    limiter = LogLimiter(lambda: 0.0)
    logged = sum(
        limiter.admit({"event": "x", "principal": f"p{number}"}) is not None for number in range(3 * KINDS_MAX)
    )
    assert logged == KINDS_MAX + KIND_PER_WINDOW
