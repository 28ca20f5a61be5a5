"""One position in all streams of a source: which streams these are, in which order they are read, and how far. Does no
I/O.

A source that is divided by days has a stream for each day, and perhaps one of its own name from before. They are read
as one stream, the oldest first. A session keeps its stream past midnight, so more than one of them may grow at a time:
the position is an id in each. A day that comes later is read from its start, and a day that was removed leaves the
position, which is so bounded by the days that there are. A stream without days is a source of one stream.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rta_wire import day_streams, entry_ids
from rta_wire.stream.live_then_cold import StreamCounters

Offset = dict[str, Any]
"""A position as JSON: `id` and `added` of the stream of the source's own name, and the same of each day in `days`, by
its digits. `added` is left out where it is not known. Without days it is what versions before 0.2 write and read."""


class StreamPosition(msgspec.Struct, frozen=True):
    """Behind which entry of a stream a reader is, and how many entries there ever were by then, where that is known."""

    id: str = entry_ids.MIN
    added: int | None = None

    def dump(self) -> Offset:
        return {"id": self.id} if self.added is None else {"id": self.id, "added": self.added}


START = StreamPosition()


def ordered_streams(source: str, indexed: Iterable[str]) -> list[str]:
    """The streams of a source in the order in which they are read: that of its own name, then its days.

    `indexed`: the streams in its index of days, or any others among which its days are.
    """
    days = {day for stream in indexed if (day := day_streams.parse(stream)) is not None and day.source == source}
    return [source, *(day.stream for day in sorted(days))]


class SourcePosition(msgspec.Struct, frozen=True):
    """How far each stream of a source was read. A stream that is not in it is read from its start."""

    source: str
    streams: dict[str, StreamPosition]

    def position(self, stream: str) -> StreamPosition:
        return self.streams.get(stream, START)

    def dump(self) -> Offset:
        own = self.position(self.source).dump()
        prefix_chars = len(self.source) + 1
        days = {
            stream[prefix_chars:]: position.dump() for stream, position in self.streams.items() if stream != self.source
        }
        return {**own, "days": days} if days else own

    @classmethod
    def load(cls, source: str, offset: Offset) -> "SourcePosition":
        positions = {source: offset}
        positions |= {f"{source}.{day}": position for day, position in offset.get("days", {}).items()}
        return cls(
            source,
            {stream: StreamPosition(position["id"], position.get("added")) for stream, position in positions.items()},
        )

    @classmethod
    def latest(cls, source: str, counters: Mapping[str, StreamCounters]) -> "SourcePosition":
        """The end of every stream. One that does not exist, or no more, is left out unless it has the source's name."""
        return cls(
            source,
            {
                stream: StreamPosition(now.last_id, now.added)
                for stream, now in counters.items()
                if now.added or stream == source
            },
        )

    @classmethod
    def after(cls, source: str, entry_id: str, counters: Mapping[str, StreamCounters]) -> "SourcePosition":
        """The same id in every stream; the end of a stream that ended before it, unless there is only that one."""
        if len(counters) == 1:
            return cls(source, dict.fromkeys(counters, StreamPosition(entry_id)))
        return cls(
            source,
            {
                stream: StreamPosition(min(entry_id, now.last_id, key=entry_ids.parse))
                for stream, now in counters.items()
                if now.added
            },
        )

    @classmethod
    def earliest(cls, source: str, counters: Mapping[str, StreamCounters]) -> "SourcePosition":
        """Before the first entry that every stream still has: what was trimmed by now is not missed."""
        return cls(
            source,
            {stream: StreamPosition(added=now.removed) for stream, now in counters.items() if now.removed},
        )

    def changed_streams(self, end: "SourcePosition") -> list[str]:
        """The streams in which another position is not at the same place, in the order in which they are read."""
        streams = ordered_streams(self.source, end.streams)
        return [stream for stream in streams if end.position(stream) != self.position(stream)]

    def removed_newest(self, indexed: Iterable[str]) -> str | None:
        """The newest day of this position where it is not in the index any more.

        The index keeps the newest day that there was. A position that ends with an earlier one is older than whatever
        was removed since, and days that came and went in between are missed without a trace.
        """
        days = ordered_streams(self.source, self.streams)[1:]
        return days[-1] if days and days[-1] not in set(indexed) else None


class IdLookup(NamedTuple):
    """A question to the caller: the id of the entry that is so many entries after an id in a stream."""

    stream: str
    after: str
    entries: int


class BoundedAdvance:
    """How far a reader goes that takes at most so many entries: through one stream after the other, the oldest first.

    The caller looks up ids where the limit ends inside a stream, since Redis gives no ids without reading entries:

        advance = BoundedAdvance(start, latest, counters, max_entries)
        while (lookup := advance.next_lookup()) is not None:
            advance.take_id(find_id(lookup))
        advance.position
    """

    def __init__(
        self, start: SourcePosition, latest: SourcePosition, counters: Mapping[str, StreamCounters], max_entries: int
    ) -> None:
        """`counters`: of this moment, of all streams of `latest`."""
        self._start = start
        self._latest = latest
        self._counters = counters
        self._budget = max_entries
        self._streams = self._pending()
        self._stream = ""
        # Streams that are gone leave the position; those that are not reached stay where they are.
        self._reached = {
            stream: start.position(stream)
            for stream in latest.streams
            if stream in start.streams or stream == latest.source
        }

    @property
    def position(self) -> SourcePosition:
        return SourcePosition(self._latest.source, self._reached)

    def next_lookup(self) -> IdLookup | None:
        """What the caller has to look up next. None: the position is complete."""
        while self._budget > 0 and (stream := next(self._streams, None)) is not None:
            end = self._latest.position(stream)
            base = self._base(stream)
            if base is not None and end.added is not None and end.added - base <= self._budget:
                self._reached[stream] = end
                self._budget -= end.added - base
                continue
            self._stream = stream
            return IdLookup(stream, self._start.position(stream).id, self._budget)
        return None

    def take_id(self, entry_id: str | None) -> None:
        """Takes the id that was looked up; None where the stream has fewer entries."""
        end = self._latest.position(self._stream)
        base = self._base(self._stream)
        removed = self._counters[self._stream].removed if self._stream in self._counters else 0
        if entry_id is not None and not entry_ids.is_after(entry_id, end.id):
            added = None if base is None else max(base, removed) + self._budget
            self._reached[self._stream] = StreamPosition(entry_id, added)
            self._budget = 0
            return
        self._reached[self._stream] = end
        if base is None or end.added is None:
            # How many these were is not known: later streams are for the next step.
            self._budget = 0
        else:
            self._budget = max(0, self._budget - max(0, end.added - max(base, removed)))

    def _base(self, stream: str) -> int | None:
        """How many entries there were up to the start, None where that is not known."""
        start = self._start.position(stream)
        return 0 if start.added is None and start.id == entry_ids.MIN else start.added

    def _pending(self) -> Iterator[str]:
        """Streams with entries after the start, in order."""
        for stream in ordered_streams(self._latest.source, self._latest.streams):
            if entry_ids.is_after(self._latest.position(stream).id, self._start.position(stream).id):
                yield stream
            elif stream in self._latest.streams:
                self._reached[stream] = self._latest.position(stream)
