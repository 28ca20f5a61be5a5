"""Reading live, then cold, on a model of a stream: each entry once or counted as lost, whatever is moved meanwhile."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import entry_ids
from rta_wire.stream import cold_index, cursor, live_then_cold
from tests.unit.wire import strategies as g
from tests.unit.wire.stream.compacted_stream import PAUSE, CompactedStream

counts = st.integers(0, 50)


@g.thorough
@given(trimmed=counts, moved=counts, unshed=counts, live=counts)
def test_entries_that_are_live_and_cold_count_once(trimmed: int, moved: int, unshed: int, live: int) -> None:
    """Whatever stands where while a stream is moved, its length and what is gone from it are the same."""
    moved = max(moved, 1)
    unshed = min(unshed, moved)
    extent = cold_index.ColdExtent("1-0", "9-0", moved, 1, trimmed + moved, 0, 0, 0, 0, 0)
    part = cursor.StreamPage((), trimmed + moved + live, unshed + live, None, "99-0", is_complete=True)
    counters = live_then_cold.combine_counters(part, extent)
    assert (counters.length, counters.removed, counters.first_id) == (moved + live, trimmed, "1-0")


@g.thorough
@given(trimmed=counts, moved=counts, hole=counts, live=counts, data=st.data())
def test_what_is_gone_after_a_place(trimmed: int, moved: int, hole: int, live: int, data: st.DataObject) -> None:
    """Counted entry by entry: those that were trimmed before what is cold, and between it and what is live."""
    moved = max(moved, 1)
    total = trimmed + moved + hole + live
    extent = cold_index.ColdExtent("1-0", "9-0", moved, 1, trimmed + moved, 0, 0, 0, 0, 0)
    counters = live_then_cold.combine_counters(
        cursor.StreamPage((), total, live, None, "99-0", is_complete=True), extent
    )
    gone = [n < trimmed or trimmed + moved <= n < trimmed + moved + hole for n in range(total)]
    added = data.draw(st.integers(0, total))
    assert counters.removed_after(added) == sum(gone[added:])


@pytest.mark.parametrize(
    ("first_id", "added", "length", "missing"),
    [
        ("5-0", 30, 30, 0),  # nothing is gone
        ("5-0", 30, 26, 0),  # only what came before the entry
        ("12-0", 30, 20, 0),  # all up to the entry
        ("12-0", 30, 17, 3),
        (None, 30, 0, 20),
        ("12-0", 4, 4, 0),  # lost, and begun again
        ("12-0", 30, 26, 4),
        (None, 4, 0, 4),
        (None, 0, 0, 0),
    ],
)
def test_what_is_gone_after_an_entry(first_id: str | None, added: int, length: int, missing: int) -> None:
    """The tenth entry, with the id 10-0. A stream that begins behind it and of which fewer are gone is another one."""
    page = cursor.StreamPage((), added, length, first_id, "99-0", is_complete=True)
    assert live_then_cold.combine_counters(page, None).missing_after("10-0", 10) == missing


def test_a_reader_that_joins_above_what_is_cold_missed_nothing() -> None:
    """What is gone from the live stream was moved; what was trimmed above that is a gap."""
    extent = cold_index.ColdExtent("1-0", "9-0", 4, 1, 5, 0, 0, 0, 0, 0)
    read = live_then_cold.ForwardRead("9-0")
    assert read.take_index(extent) is None
    fields = {b"id": b"7", b"data": b""}
    whole = cursor.StreamPage([(b"12-0", fields)], 6, 1, "12-0", "12-0", is_complete=True)
    stream_cursor = cursor.StreamCursor(lambda _: read.live_page(whole), after="9-0")
    assert [type(item) for item in stream_cursor.step()] == [cursor.StreamEntry]
    trimmed = cursor.StreamPage([(b"15-0", fields)], 8, 1, "15-0", "15-0", is_complete=True)
    stream_cursor = cursor.StreamCursor(lambda _: read.live_page(trimmed), after="9-0")
    gap, _ = list(stream_cursor.step())
    assert isinstance(gap, cursor.Gap)
    assert gap.entries == 2


def test_a_stream_without_a_cold_part_is_read_live() -> None:
    """Nothing is asked for, and the live page stays as it is."""
    read = live_then_cold.ForwardRead("1-0")
    assert read.take_index(None) is None
    assert read.batch is None
    assert read.live_page(cursor.EMPTY_PAGE) is cursor.EMPTY_PAGE


EXTENT = cold_index.ColdExtent("1-0", "9-0", 9, 3, 9, 0, 0, 0, 0, 0)


def test_a_batch_counts_once_the_index_is_the_same_after_it() -> None:
    """An index that changed while a batch was read has the batch read again; the old one is not used."""
    read = live_then_cold.ForwardRead("1-0")
    assert read.take_index(EXTENT) == ("1-0", "9-0")
    read.take_batch(("3-0", b"removed"))
    trimmed = msgspec.structs.replace(EXTENT, first_id="4-0")
    assert read.take_index(trimmed) == (entry_ids.previous_id("4-0"), "9-0")
    read.take_batch(("6-0", b"kept"))
    assert read.take_index(trimmed) is None
    assert (read.batch, read.extent) == (("6-0", b"kept"), trimmed)
    assert read.cold_page([]).first_id == "4-0"


def test_a_batch_that_the_index_counts_no_more_is_passed_by() -> None:
    """It is about to be removed and counts as removed: its entries are a gap and don't come as well."""
    extent = msgspec.structs.replace(EXTENT, first_id="4-0", entries=6, batches=2)
    read = live_then_cold.ForwardRead(entry_ids.MIN)
    assert read.take_index(extent) == (entry_ids.previous_id("4-0"), "9-0")
    read.take_batch(("6-0", b""))
    assert read.take_index(extent) is None
    page = read.cold_page([(b"4-0", {b"id": b"7", b"data": b""})])
    stream_cursor = cursor.StreamCursor(lambda _: page)
    assert list(stream_cursor.step()) == [cursor.Gap(entry_ids.MIN, "4-0", 3), cursor.StreamEntry("4-0", 7, b"")]


@pytest.mark.parametrize("extent", [None, msgspec.structs.replace(EXTENT, last_id="1-0")])
def test_a_batch_is_dropped_where_the_index_is_gone_after_it(extent: cold_index.ColdExtent | None) -> None:
    """Where nothing after the position is cold any more, what was found live comes next."""
    read = live_then_cold.ForwardRead("1-0")
    read.take_index(EXTENT)
    read.take_batch(("3-0", b"removed"))
    assert read.take_index(extent) is None
    assert read.batch is None
    assert read.live_page(cursor.EMPTY_PAGE).added_before == (9 if extent else 0)


def test_batches_that_are_missing_are_not_passed_by_in_silence() -> None:
    """The index promises entries that the cold stream lacks: the live page comes next, and a cursor sees the gap."""
    read = live_then_cold.ForwardRead("1-0")
    read.take_index(EXTENT)
    read.take_batch(None)
    assert read.take_index(EXTENT) is None
    assert read.batch is None
    live = cursor.StreamPage((), 9, 0, None, "9-0", is_complete=True)
    assert read.live_page(live) == live


@pytest.mark.parametrize(
    ("until", "bounds", "is_last"),
    [("5-0", ("1-0", "5-0"), True), ("6-0", ("1-0", "6-0"), True), ("7-0", ("1-0", "7-0"), False)],
)
def test_a_reader_that_ends_inside_a_batch(until: str, bounds: tuple[str, str], is_last: bool) -> None:
    """Entries are wanted up to the last id, and no batch after the one that reaches it."""
    read = live_then_cold.ForwardRead("1-0", until)
    read.take_index(EXTENT)
    read.take_batch(("6-0", b""))
    assert read.take_index(EXTENT) is None
    assert (read.entry_range, read.is_last_batch) == (bounds, is_last)


@pytest.mark.parametrize("until", ["0-5", "1-0"])
def test_a_reader_that_is_at_its_end_reads_no_batch(until: str) -> None:
    """An empty range is decided without the cold stream."""
    assert live_then_cold.ForwardRead("1-0", until).take_index(EXTENT) is None


def test_a_batch_that_the_index_does_not_have_yet() -> None:
    """It was appended a moment ago: entries above the index are still live and are taken from there."""
    read = live_then_cold.ForwardRead("1-0")
    read.take_index(EXTENT)
    read.take_batch(("12-0", b""))
    assert read.entry_range == ("1-0", "9-0")


def test_backwards_nothing_is_read_that_is_too_old() -> None:
    """The cold part is left alone where all of it is older than what is wanted."""
    assert live_then_cold.BackwardRead("9-0").take_index(EXTENT) is None
    assert live_then_cold.BackwardRead("9-0").take_index(None) is None
    read = live_then_cold.BackwardRead("4-0")
    assert read.take_index(EXTENT) == "9-0"
    assert read.entry_range == ("4-0", "9-0")
    assert read.take_batch(("6-0", b"")) == "(6-0"
    assert read.take_batch(("3-0", b"")) is None


adds = st.tuples(st.just("add"), st.integers(1, 6))
moves = st.tuples(st.just("move"), st.integers(1, 4))
removals = st.tuples(st.just("remove"), st.just(0))
pauses = st.just(PAUSE)
moving = st.lists(st.one_of(adds, moves, moves, pauses), max_size=80)
removing = st.lists(st.one_of(adds, moves, moves, removals, pauses), max_size=80)


@g.thorough
@given(before=moving, script=removing)
def test_a_cursor_reads_or_counts_every_entry(before: list[tuple[str, int]], script: list[tuple[str, int]]) -> None:
    """Whatever is moved and removed between two reads, entries that were read and gaps add up, and none comes twice."""
    stream = CompactedStream([*(action for action in before if action != PAUSE), PAUSE, *script])
    stream_cursor = cursor.StreamCursor(stream.next_page)
    read: list[str] = []
    lost = quiet_steps = 0
    while quiet_steps < len(script) + 2:
        items = list(stream_cursor.step())
        for item in items:
            if isinstance(item, cursor.Gap):
                assert item.exact
                lost += item.entries
            else:
                read.append(item.id)
        quiet_steps = 0 if items else quiet_steps + 1
    assert read == sorted(set(read), key=entry_ids.parse)
    assert len(read) + lost == stream.added


@g.thorough
@given(before=moving, script=moving, after=st.integers(0, 30), until=st.integers(0, 40))
def test_a_range_is_read_whole_while_it_is_moved(
    before: list[tuple[str, int]], script: list[tuple[str, int]], after: int, until: int
) -> None:
    """Every entry that was there when the read began comes once and in order, wherever it is by then."""
    stream = CompactedStream([*(action for action in before if action != PAUSE), PAUSE, *script])
    stream.happen()
    first, last = after, min(until, stream.added)
    ids = list(stream.read_range(entry_ids.format_id(first), entry_ids.format_id(last)))
    assert ids == [entry_ids.format_id(ms) for ms in range(first + 1, last + 1)]


@g.thorough
@given(before=moving, script=moving, after=st.integers(0, 30))
def test_backwards_nothing_is_missed_or_doubled(
    before: list[tuple[str, int]], script: list[tuple[str, int]], after: int
) -> None:
    """Every entry that was there when the read began comes once, newest first, while entries are moved."""
    stream = CompactedStream([*(action for action in before if action != PAUSE), PAUSE, *script])
    stream.happen()
    there = stream.added
    ids = list(stream.read_backwards(entry_ids.format_id(after)))
    assert ids == sorted(set(ids), key=entry_ids.parse, reverse=True)
    assert {entry_ids.ms_of(entry_id) for entry_id in ids} >= set(range(after + 1, there + 1))
