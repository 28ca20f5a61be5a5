"""The index of cold batches: entries that are live and cold count once."""

from hypothesis import given
from hypothesis import strategies as st

from rta_wire.stream import cold_index, cursor, live_then_cold
from tests.unit.wire import strategies as g

counts = st.integers(0, 50)


@g.thorough
@given(trimmed=counts, moved=counts, unshed=counts, live=counts)
def test_entries_that_are_live_and_cold_count_once(trimmed: int, moved: int, unshed: int, live: int) -> None:
    """Whatever stands where while a stream is moved, its length and what is gone from it are the same."""
    moved = max(moved, 1)
    unshed = min(unshed, moved)
    one = cold_index.ColdExtent("1-0", "9-0", moved, 1, trimmed + moved, 0, 0, 0, 0, 0)
    part = cursor.StreamPage((), trimmed + moved + live, unshed + live, None, "99-0", is_complete=True)
    found = live_then_cold.combine_counters(part, one)
    assert (found.length, found.removed, found.first_id) == (moved + live, trimmed, "1-0")


@g.thorough
@given(trimmed=counts, moved=counts, hole=counts, live=counts, data=st.data())
def test_what_is_gone_after_a_place(trimmed: int, moved: int, hole: int, live: int, data: st.DataObject) -> None:
    """Counted entry by entry: those that were trimmed before what is cold, and between it and what is live."""
    moved = max(moved, 1)
    total = trimmed + moved + hole + live
    one = cold_index.ColdExtent("1-0", "9-0", moved, 1, trimmed + moved, 0, 0, 0, 0, 0)
    found = live_then_cold.combine_counters(cursor.StreamPage((), total, live, None, "99-0", is_complete=True), one)
    gone = [n < trimmed or trimmed + moved <= n < trimmed + moved + hole for n in range(total)]
    added = data.draw(st.integers(0, total))
    assert found.removed_after(added) == sum(gone[added:])


def test_a_reader_that_joins_above_what_is_cold_missed_nothing() -> None:
    """What is gone from the live stream was moved; what was trimmed above that is a gap."""
    one = cold_index.ColdExtent("1-0", "9-0", 4, 1, 5, 0, 0, 0, 0, 0)
    fields = {b"id": b"7", b"data": b""}
    whole = cursor.StreamPage([(b"12-0", fields)], 6, 1, "12-0", "12-0", is_complete=True)
    follower = cursor.StreamCursor(lambda _: live_then_cold.live_page(whole, one), after="9-0")
    assert [type(found) for found in follower.step()] == [cursor.StreamEntry]
    trimmed = cursor.StreamPage([(b"15-0", fields)], 8, 1, "15-0", "15-0", is_complete=True)
    follower = cursor.StreamCursor(lambda _: live_then_cold.live_page(trimmed, one), after="9-0")
    gap, _ = list(follower.step())
    assert isinstance(gap, cursor.Gap)
    assert gap.entries == 2
