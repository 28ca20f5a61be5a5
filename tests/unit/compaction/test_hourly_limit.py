"""The limit on streams whose compaction begins in an hour."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.compaction.hourly_limit import HOUR_S, HourlyLimit


@given(st.lists(st.integers(0, 2000), max_size=40), st.integers(1, 5))
def test_no_hour_has_more_streams_than_allowed(pauses_s: list[int], streams_per_hour: int) -> None:
    """Compared with counting those of the last hour; what is not allowed is not begun."""
    hourly_limit = HourlyLimit()
    at_s = 0
    begun_s: list[int] = []
    for pause_s in pauses_s:
        at_s += pause_s
        in_last_hour = [begin_s for begin_s in begun_s if begin_s >= at_s - HOUR_S]
        assert hourly_limit.may_begin(at_s, streams_per_hour) == (len(in_last_hour) < streams_per_hour)
        if len(in_last_hour) < streams_per_hour:
            hourly_limit.note_begin(at_s)
            begun_s.append(at_s)
