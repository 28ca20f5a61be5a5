"""Following a stream that is trimmed, emptied, removed and made again: every entry is read or counted as lost."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import entry_ids, errors
from rta_wire.stream import cursor
from tests.unit.wire import strategies as g


class Stream:
    """A stream as Redis keeps it, with its counters."""

    def __init__(self, first_ms: int = 1) -> None:
        self.entries: list[tuple[bytes, Mapping[bytes, bytes]]] = []
        self.added = 0
        self.ms = first_ms
        self.last_id = entry_ids.MIN

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self.last_id = f"{self.ms}-0"
            self.entries.append((self.last_id.encode(), {b"id": b"7", b"data": self.last_id.encode()}))
            self.ms += 1
            self.added += 1

    def trim(self, count: int) -> None:
        del self.entries[:count]

    def read(self, after: str, asked: int = 3) -> cursor.StreamPage:
        """What MULTI, XINFO STREAM, XRANGE, EXEC give."""
        entries = [entry for entry in self.entries if entry_ids.is_after(entry[0].decode(), after)][:asked]
        info = {
            "length": len(self.entries),
            "entries-added": self.added,
            "last-generated-id": self.last_id.encode(),
            "first-entry": self.entries[0] if self.entries else None,
        }
        return cursor.parse_page(info, entries, asked=asked)


def drain(stream_cursor: cursor.StreamCursor) -> list[cursor.StreamEntry | cursor.Gap]:
    """Steps until nothing comes any more."""
    items: list[cursor.StreamEntry | cursor.Gap] = []
    while step := list(stream_cursor.step()):
        items += step
    return items


def ids(items: list[cursor.StreamEntry | cursor.Gap]) -> list[object]:
    """Ids of entries, and gaps as they are."""
    return [item.id if isinstance(item, cursor.StreamEntry) else item for item in items]


def test_entries_come_once_and_in_order() -> None:
    """A stream that nobody trims has no gaps, in as many steps as it takes."""
    stream = Stream()
    stream.add(7)
    stream_cursor = cursor.StreamCursor(stream.read)
    assert ids(drain(stream_cursor)) == [f"{k}-0" for k in range(1, 8)]
    assert not drain(stream_cursor)
    stream.add()
    assert drain(stream_cursor) == [cursor.StreamEntry("8-0", 7, b"8-0")]


def test_entries_that_were_trimmed_unread_are_a_gap_with_their_number() -> None:
    """What was evicted between two reads, or before the first, is counted exactly."""
    stream = Stream()
    stream.add(5)
    stream.trim(2)
    stream_cursor = cursor.StreamCursor(stream.read)
    assert ids(drain(stream_cursor)) == [cursor.Gap(entry_ids.MIN, "3-0", 2), "3-0", "4-0", "5-0"]
    stream.add(6)
    stream.trim(7)
    assert ids(drain(stream_cursor)) == [cursor.Gap("5-0", "10-0", 4), "10-0", "11-0"]


def test_entries_that_were_read_before_they_were_trimmed_are_no_gap() -> None:
    """Trimming behind the reader is of no interest."""
    stream = Stream()
    stream.add(5)
    stream_cursor = cursor.StreamCursor(stream.read)
    drain(stream_cursor)
    stream.trim(5)
    stream.add(1)
    assert ids(drain(stream_cursor)) == ["6-0"]


def test_an_emptied_stream_is_a_gap_up_to_its_end() -> None:
    """Where everything is gone the gap has no end id, and it is told once."""
    stream = Stream()
    stream.add(4)
    stream_cursor = cursor.StreamCursor(stream.read)
    list(stream_cursor.step())
    stream.trim(4)
    assert drain(stream_cursor) == [cursor.Gap("3-0", None, 1)]
    stream.add(1)
    assert ids(drain(stream_cursor)) == ["5-0"]


def test_from_the_middle_the_number_is_a_bound_until_the_end_was_seen() -> None:
    """Who joins at a position can't know how much was removed right after it, and says so."""
    stream = Stream()
    stream.add(10)
    stream.trim(6)
    late = cursor.StreamCursor(stream.read, after="4-0")
    assert ids(drain(late))[0] == cursor.Gap("4-0", "7-0", 6, exact=False)
    early = cursor.StreamCursor(stream.read, after="8-0")
    assert ids(drain(early)) == ["9-0", "10-0"]
    stream.add(5)
    stream.trim(6)
    assert ids(drain(early))[0] == cursor.Gap("10-0", "13-0", 2)


def test_the_bound_takes_into_account_what_was_removed_before_the_position() -> None:
    """Entries that were gone before a reader joined behind them are not among those that it lost."""
    stream = Stream()
    stream.add(20)
    stream.trim(5)
    stream_cursor = cursor.StreamCursor(stream.read, after="8-0")
    assert ids(list(stream_cursor.step())) == ["9-0", "10-0", "11-0"]
    stream.trim(10)
    assert ids(list(stream_cursor.step()))[0] == cursor.Gap("11-0", "16-0", 6, exact=False)


@pytest.mark.parametrize("first_ms", [1, 1000])
def test_a_stream_that_was_removed_and_made_again_is_reported(first_ms: int) -> None:
    """With lower ids a reader would wait for ever, with higher ones it would miss that others are gone."""
    streams = [Stream(100)]
    streams[0].add(20)

    def read(after: str) -> cursor.StreamPage:
        return streams[-1].read(after)

    stream_cursor = cursor.StreamCursor(read)
    drain(stream_cursor)
    streams.append(Stream(first_ms))
    streams[-1].add(2)
    items = drain(stream_cursor)
    assert items[0] == cursor.Gap("119-0", f"{first_ms}-0", 0, exact=False, restarted=True)
    assert ids(items[1:]) == [f"{first_ms}-0", f"{first_ms + 1}-0"]


def test_a_stream_that_is_gone_is_reported_and_followed_when_it_returns() -> None:
    """No stream at all looks like an empty one that starts again."""
    stream = Stream()
    stream.add(2)
    parts = [stream.read(entry_ids.MIN), cursor.EMPTY_PAGE, cursor.EMPTY_PAGE]
    stream_cursor = cursor.StreamCursor(lambda _: parts.pop(0))
    assert len(list(stream_cursor.step())) == 2
    assert list(stream_cursor.step()) == [cursor.Gap("2-0", None, 0, exact=False, restarted=True)]
    assert list(stream_cursor.step()) == []
    assert stream_cursor.position == entry_ids.MIN


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({b"id": b"1"}, "entry 2-0: it has no field data"),
        ({b"data": b""}, "entry 2-0: it has no field id"),
        ({}, "no field id and no field data"),
        ({b"id": b"x", b"data": b""}, "is no stream session id"),
        ({b"id": b"9" * 5000, b"data": b""}, "is no stream session id"),
    ],
)
def test_an_entry_that_is_bad_raises_once_and_is_passed_by(fields: dict[bytes, bytes], words: str) -> None:
    """The error names the entry, and the next step goes on behind it."""
    stream = Stream()
    stream.add(3)
    stream.entries[1] = (b"2-0", fields)
    stream_cursor = cursor.StreamCursor(stream.read)
    with pytest.raises(errors.BadBurst, match=words):
        list(stream_cursor.step())
    assert ids(drain(stream_cursor)) == ["3-0"]


moves = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 9)),
        st.tuples(st.just("trim"), st.integers(0, 12)),
        st.tuples(st.just("step"), st.just(0)),
    ),
    max_size=40,
)


@g.thorough
@given(moves=moves)
def test_entries_read_and_entries_lost_add_up(moves: list[tuple[str, int]]) -> None:
    """Whatever is added and trimmed between steps, nothing is lost without being counted, and nothing is read twice."""
    stream = Stream()
    stream_cursor = cursor.StreamCursor(stream.read)
    read: list[str] = []
    lost = 0
    for what, count in [*moves, ("end", 0)]:
        if what == "add":
            stream.add(count)
        elif what == "trim":
            stream.trim(count)
        for item in drain(stream_cursor) if what == "end" else stream_cursor.step() if what == "step" else ():
            if isinstance(item, cursor.Gap):
                assert item.exact
                lost += item.entries
            else:
                read.append(item.id)
    assert len(read) + lost == stream.added
    assert read == sorted(set(read), key=entry_ids.parse)
