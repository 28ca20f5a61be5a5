"""Totals and marks: joining is the same in any order, text keeps every digit."""

from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec.encode import Burst
from rta_wire.control.totals import EVERY_ROW, Mark, Totals
from rta_wire.pb import control_pb2

counts = st.integers(0, 2**53)
times = st.integers(-(2**63), 2**63 - 1)
spans = st.none() | st.tuples(times, times).map(sorted)


@st.composite
def totals(draw: st.DrawFn) -> Totals:
    span = draw(spans)
    return Totals(draw(counts), draw(counts), draw(counts), draw(counts), *(span or (None, None)))


@given(totals(), totals(), totals())
def test_joining_is_commutative_associative_and_idempotent(a: Totals, b: Totals, c: Totals) -> None:
    """Reports may come twice, late or shuffled."""
    assert a.max_of(b) == b.max_of(a)
    assert a.max_of(b).max_of(c) == a.max_of(b.max_of(c))
    assert a.max_of(b).max_of(b) == a.max_of(b)


@given(totals())
def test_words_and_messages_keep_every_digit(value: Totals) -> None:
    """Neither text nor protobuf rounds a nanosecond."""
    assert Totals.from_strings(value.to_strings()) == value
    message = control_pb2.Totals.FromString(value.to_message().SerializeToString())
    assert Totals.from_message(message) == value


@given(totals(), st.integers(-1, 2**53), st.integers(0, 2**53))
def test_a_mark_survives_its_text(value: Totals, epoch: int, rows: int) -> None:
    """What a unit reads back is what it wrote."""
    mark = Mark(epoch, rows, value)
    assert Mark.from_text(mark.text()) == mark


def test_places_in_the_order_of_rows() -> None:
    """Of its own epoch a mark holds so many rows, of earlier ones every row, of later ones none."""
    mark = Mark(epoch=3, rows=5)
    assert [mark.rows_done(epoch) for epoch in (2, 3, 4)] == [EVERY_ROW, 5, 0]
    assert Mark().rows_done(0) == 0


def test_totals_grow_by_bursts() -> None:
    """Counts add up, the range widens, a burst without samples does not move it."""
    grown = Totals()
    for burst in (Burst(b"abc", 10, 2, 5, 9), Burst(b"d", 3, 1, 7, 12), Burst(b"", 1, 0, 0, 0)):
        grown = grown.with_burst(burst)
    assert grown == Totals(3, 3, 14, 4, 5, 12)
