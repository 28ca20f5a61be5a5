"""One position in all days of a source, on a model of days that grow, are trimmed, become cold and are removed."""

import datetime
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import entry_ids
from rta_wire.stream import cold_index, cursor, live_then_cold, source_cursor
from rta_wire.stream.live_then_cold import StreamCounters
from rta_wire.stream.source_cursor import SourcePosition, StreamPosition
from tests.unit.wire import strategies as g


class Day:
    """A stream of the model: all ids that were ever added, how many of them are gone, and how many are cold."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.removed = 0
        self.cold_end = 0

    @property
    def remaining(self) -> list[str]:
        return self.ids[self.removed :]

    def counters(self) -> StreamCounters:
        if not self.ids:
            return StreamCounters()
        live_ids = self.ids[max(self.removed, self.cold_end) :]
        first_live = live_ids[0] if live_ids else None
        live = cursor.StreamPage((), len(self.ids), len(live_ids), first_live, self.ids[-1], is_complete=True)
        cold_ids = self.ids[self.removed : self.cold_end]
        extent = None
        if cold_ids:
            counts = (len(cold_ids), 1, self.cold_end, 0, 0, 0, 0, 0)
            extent = cold_index.ColdExtent(cold_ids[0], cold_ids[-1], *counts)
        return live_then_cold.combine_counters(live, extent)


class Source:
    """A source `rig` with its index of days, which keeps the newest day when its stream has gone."""

    def __init__(self) -> None:
        self.streams: dict[str, Day] = {}
        self.indexed: list[str] = []
        self.clock_ms = 0
        self.day = datetime.date(2026, 1, 25)
        self.gone: set[str] = set()

    def act(self, what: str, which: int, count: int) -> None:
        if what == "midnight":
            self.day += datetime.timedelta(days=1)
            self.indexed = [*(day for day in self.indexed if day in self.streams), f"rig.{self.day:%Y%m%d}"]
        elif what == "undivided":
            self._add("rig", count)
        elif self.indexed:
            self._act_on_day(what, self.indexed[-1 - which % len(self.indexed)], count)

    def _act_on_day(self, what: str, stream: str, count: int) -> None:
        if what == "add":
            # A day that was removed gets no entries any more: no session is open in it.
            if stream not in self.gone:
                self._add(stream, count)
            return
        if (day := self.streams.get(stream)) is None:
            return
        if what == "trim":
            day.removed = min(len(day.ids), day.removed + count)
        elif what == "move":
            day.cold_end = min(len(day.ids), max(day.cold_end, day.removed) + count)
        elif what == "remove":
            del self.streams[stream]
            self.gone.add(stream)
            self.indexed = [day for day in self.indexed if day != stream or day == self.indexed[-1]]

    def _add(self, stream: str, count: int) -> None:
        for _ in range(count):
            self.clock_ms += 1
            self.streams.setdefault(stream, Day()).ids.append(entry_ids.format_id(self.clock_ms))

    def counters(self) -> dict[str, StreamCounters]:
        streams = source_cursor.ordered_streams("rig", reversed(self.indexed))
        return {stream: self.streams.get(stream, Day()).counters() for stream in streams}


class Reader:
    """A streaming query: it has an offset, and keeps what each of its triggers read."""

    def __init__(self, source: Source, max_entries: int) -> None:
        self.source = source
        self.max_entries = max_entries
        self.offset: source_cursor.Offset = {"id": entry_ids.MIN}
        self.read: dict[str, list[str]] = {}
        self.lost: dict[str, int] = {}

    def trigger(self) -> int:
        """One trigger. Gives how many entries it read."""
        counters = self.source.counters()
        start = SourcePosition.load("rig", self.offset)
        latest = SourcePosition.latest("rig", counters)
        advance = source_cursor.BoundedAdvance(start, latest, counters, self.max_entries)
        while (wanted := advance.next_lookup()) is not None:
            later = [
                entry_id
                for entry_id in self.source.streams[wanted.stream].remaining
                if entry_ids.is_after(entry_id, wanted.after)
            ]
            advance.take_id(later[wanted.entries - 1] if len(later) >= wanted.entries else None)
        self.offset = json.loads(json.dumps(advance.position.dump()))
        end = SourcePosition.load("rig", self.offset)
        assert set(end.streams) <= {"rig", *self.source.streams}, "the offset has streams that are gone"
        return sum(self._read(stream, start, end, counters) for stream in start.changed_streams(end))

    def _read(
        self, stream: str, start: SourcePosition, end: SourcePosition, counters: dict[str, StreamCounters]
    ) -> int:
        before, after = start.position(stream).id, end.position(stream).id
        self.lost[stream] = self.lost.get(stream, 0) + counters[stream].removed_after(start.position(stream).added or 0)
        ids = [
            entry_id
            for entry_id in self.source.streams.get(stream, Day()).remaining
            if entry_ids.is_after(entry_id, before) and not entry_ids.is_after(entry_id, after)
        ]
        self.read.setdefault(stream, []).extend(ids)
        return len(ids)


counts = st.integers(1, 6)
days_back = st.integers(0, 3)
actions = st.one_of(
    st.tuples(st.just("midnight"), st.just(0), st.just(0)),
    st.tuples(st.sampled_from(["add", "add", "add", "undivided"]), days_back, counts),
    st.tuples(st.sampled_from(["add", "trim", "trim", "move", "remove"]), days_back, counts),
    st.tuples(st.just("trigger"), st.just(0), st.just(0)),
)
scripts = st.lists(actions, min_size=10, max_size=60).map(lambda script: [("midnight", 0, 0), *script])


@g.thorough
@given(script=scripts, max_entries=st.integers(1, 6))
@example(script=[("midnight", 0, 0), ("add", 0, 12), ("trim", 0, 5)], max_entries=3)
def test_every_entry_of_every_day_once(script: list[tuple[str, int, int]], max_entries: int) -> None:
    """Across midnights, with several days that grow at once: entries that were read and those that were trimmed before
    that add up, none comes twice, no trigger takes more than it may, and the offset is bounded by the days there are.
    """
    source = Source()
    reader = Reader(source, max_entries)
    for what, which, count in script:
        if what == "trigger":
            assert reader.trigger() <= max_entries
        else:
            source.act(what, which, count)
    before = None
    while before != reader.offset:
        before = reader.offset
        assert reader.trigger() <= max_entries
    for stream, day in source.streams.items():
        read = reader.read.get(stream, [])
        assert read == sorted(set(read), key=entry_ids.parse)
        assert set(day.remaining) <= set(read), "what is there was not read"
        assert len(read) + reader.lost.get(stream, 0) == len(day.ids), stream


@g.thorough
@given(script=scripts)
def test_the_oldest_day_comes_first(script: list[tuple[str, int, int]]) -> None:
    """A reader that takes one entry at a time goes from day to day: within one step nothing of a later day comes while
    an earlier one has entries."""
    source = Source()
    for what, which, count in script:
        if what != "trigger":
            source.act(what, which, count)
    reader = Reader(source, 1)
    expected = [
        (stream, entry_id)
        for stream in ["rig", *sorted(source.indexed)]
        for entry_id in (source.streams[stream].remaining if stream in source.streams else [])
    ]
    read: list[tuple[str, str]] = []
    while True:
        before = {stream: len(ids) for stream, ids in reader.read.items()}
        if not reader.trigger() and before == {stream: len(ids) for stream, ids in reader.read.items()}:
            break
        read += [(stream, entry_id) for stream, ids in reader.read.items() for entry_id in ids[before.get(stream, 0) :]]
    assert read == expected


def counters(last: int, *, removed: int = 0) -> StreamCounters:
    """Counters of a stream with an entry for each ms up to the last."""
    return StreamCounters(
        entry_ids.format_id(removed + 1), entry_ids.format_id(last), added=last, length=last - removed
    )


def test_offsets_of_one_stream_are_what_they_were() -> None:
    """A checkpoint of an earlier version loads, and a stream without days has an offset that such a version reads."""
    latest = SourcePosition.latest("rig", {"rig": counters(7)})
    assert latest.dump() == {"id": "7-0", "added": 7}
    assert SourcePosition.load("rig", {"id": "7-0", "added": 7}) == latest
    assert SourcePosition.load("rig", {"id": "5-0"}).position("rig") == StreamPosition("5-0")
    assert SourcePosition.earliest("rig", {"rig": counters(7)}).dump() == {"id": "0-0"}
    assert SourcePosition.after("rig", "99-0", {"rig": counters(7)}).dump() == {"id": "99-0"}


def test_a_source_that_is_divided_from_now_on() -> None:
    """The checkpoint of its undivided stream goes on in that stream, and each day is read from its start."""
    start = SourcePosition.load("rig", {"id": "7-0", "added": 7})
    now = {"rig": counters(9), "rig.20260101": counters(3), "rig.20260102": StreamCounters()}
    latest = SourcePosition.latest("rig", now)
    assert latest.dump() == {"id": "9-0", "added": 9, "days": {"20260101": {"id": "3-0", "added": 3}}}
    assert SourcePosition.load("rig", latest.dump()) == latest
    assert start.changed_streams(latest) == ["rig", "rig.20260101"]
    assert start.position("rig.20260101") == StreamPosition()


def test_where_a_reader_begins() -> None:
    """What was trimmed before it began is not missed. An id is one time in all days, and the end of earlier ones."""
    now = {"rig": StreamCounters(), "rig.20260101": counters(5, removed=2), "rig.20260102": counters(9)}
    earliest = SourcePosition.earliest("rig", now)
    assert earliest.dump() == {"id": "0-0", "days": {"20260101": {"id": "0-0", "added": 2}}}
    after = SourcePosition.after("rig", "7-0", now)
    assert after.dump() == {"id": "0-0", "days": {"20260101": {"id": "5-0"}, "20260102": {"id": "7-0"}}}


@pytest.mark.parametrize(
    ("indexed", "removed"),
    [
        (["rig.20260101", "rig.20260102"], None),
        (["rig.20260102", "rig.20260109"], None),
        (["rig.20260109"], "rig.20260102"),
        ([], "rig.20260102"),
    ],
)
def test_a_reader_that_was_away_for_longer_than_days_are_kept(indexed: list[str], removed: str | None) -> None:
    """The day at which it stood is gone: days in between may be too. While that is there nothing can be missed."""
    days = {"20260101": {"id": "5-0"}, "20260102": {"id": "6-0"}}
    assert SourcePosition.load("rig", {"id": "0-0", "days": days}).removed_newest(indexed) == removed
    assert SourcePosition.load("rig", {"id": "5-0"}).removed_newest(indexed) is None


def test_days_of_other_sources_are_left_alone() -> None:
    """Names that only begin or end alike are no days of this source."""
    days = [f"rig.202601{number:02}" for number in range(1, 31)]
    names = ["rig-2.20260101", "rig.x.20260101", "rig.20261301", "rig", *reversed(days), "other"]
    assert source_cursor.ordered_streams("rig", names) == ["rig", *days]
    assert source_cursor.ordered_streams("rig.20260102", names) == ["rig.20260102"]
