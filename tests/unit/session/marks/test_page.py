"""Marks as writers left them: what is read, what is left out, and whose times are not believed."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session.marks import page
from rta_wire.control.totals import Mark, Totals

EARLIEST_NS, LATEST_NS = 0, 1000
TIMES = st.integers(-2000, 2000)


@given(start_ns=TIMES, end_ns=TIMES)
def test_times_count_where_both_are_plausible(start_ns: int, end_ns: int) -> None:
    """The counts stay in any case: the data is in the stream."""
    raw = {b"u": Mark(0, 1, Totals(1, 2, 3, 4, start_ns, end_ns)).text().encode()}
    parsed = page.parse(raw, EARLIEST_NS, LATEST_NS)
    if EARLIEST_NS <= start_ns <= end_ns <= LATEST_NS:
        assert parsed == ({"u": Totals(1, 2, 3, 4, start_ns, end_ns)}, (), ())
    else:
        assert parsed == ({"u": Totals(1, 2, 3, 4)}, (), ("u",))


@given(marks=st.dictionaries(st.binary(max_size=300), st.binary(max_size=60), max_size=5))
def test_whatever_stands_there_is_read_or_left_out(marks: dict[bytes, bytes]) -> None:
    """One that can't be read hides no other, and is quoted in short."""
    parsed = page.parse({**marks, b"good": b"0 1 1 1 1 1 5 9"}, EARLIEST_NS, LATEST_NS)
    assert parsed.units["good"] == Totals(1, 1, 1, 1, 5, 9)
    assert len(parsed.units) + len(parsed.unreadable) == len({*marks, b"good"})
    assert all(len(reason) < 1000 for reason in parsed.unreadable)


def test_a_mark_without_data_has_no_times() -> None:
    parsed = page.parse({b"u": Mark(3, 0, Totals()).text().encode()}, EARLIEST_NS, LATEST_NS)
    assert parsed == ({"u": Totals()}, (), ())
