"""Figures over many summaries."""

from rta_supervisor.observe import summaries
from rta_supervisor.observe.summaries import ControlStreamSummary, SessionSummary
from rta_wire.session import State


def test_sessions_are_counted_by_state() -> None:
    """Open and waiting sessions are counted also if there are none."""
    states = [State.CLOSED, State.OPEN, State.CLOSED]
    sessions = [SessionSummary("i", state, "s", 1, "p", 1, 2, 0, 0, 0, 0, None, None, False) for state in states]
    assert summaries.count_by_state([]) == {"open": 0, "waiting": 0}
    assert list(summaries.count_by_state(sessions).items()) == [("open", 1), ("waiting", 0), ("closed", 2)]


def test_the_oldest_message_of_all_control_streams() -> None:
    """Control streams without a message have no age."""
    streams = [ControlStreamSummary("k", "p", "reports", 1, 0, oldest_ms, 0, True) for oldest_ms in (None, 3000, 1500)]
    assert summaries.oldest_age_s(streams, at_ms=4000) == 2.5
    assert summaries.oldest_age_s(streams[:1], at_ms=4000) == 0.0
