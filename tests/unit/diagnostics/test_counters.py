"""Counters per stream: days of one source are counted together."""

import datetime

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics import counters
from rta_wire import day_streams

sources = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,118}", fullmatch=True)
numbers = st.integers(0, (datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days)


@given(st.lists(st.tuples(sources, numbers), max_size=30))
def test_days_are_counted_together_and_streams_that_are_gone_make_room(days: list[tuple[str, int]]) -> None:
    """There are as many labels as sources, however many days; the counts of a stream that is gone stay in the sum."""
    counts = counters.Counts()
    for source, number in days:
        counts.add_reported(day_streams.Day(source, number).stream, (1, 2, 3, 4))
    assert counts.streams.keys() == {source for source, _ in days}
    before = counts.history_sums()
    kept = [day_streams.Day(source, number).stream for source, number in days[: len(days) // 2]]
    counts.merge_gone_streams(kept)
    assert counts.streams.keys() - {counters.OTHER} == {source for source, _ in days[: len(days) // 2]}
    assert counts.history_sums() == before
