"""Follows a stream: every entry once, and a gap wherever entries were removed before they could be read.

Does no I/O: the caller hands in a function that reads a part of the stream together with the stream's counters, both
from one moment (MULTI, XINFO STREAM, XRANGE, EXEC). Redis does not say which entries a trim removed, but it counts
every entry ever added: what was added and is not there any more was removed from the front.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rta_wire import entry_ids, errors, keys


class StreamEntry(NamedTuple):
    """One entry of a stream."""

    id: str
    stream_session_id: int
    data: bytes


class Gap(NamedTuple):
    """Entries after one id and before another that nobody can read any more; `before` is None at the end of the stream.

    `entries` is their number, or the most that it can be where the stream was not read from its start and `exact` is
    False. `restarted` means that the stream was removed and made again: what went with the old one is not counted.
    """

    after: str
    before: str | None
    entries: int
    exact: bool = True
    restarted: bool = False


class StreamPage(NamedTuple):
    """Some entries of a stream right after an id, and the counters of the stream at the same moment."""

    entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    entries_added: int
    length: int
    first_id: str | None
    last_id: str
    is_complete: bool
    """Whether `entries` goes to the end of the stream."""
    added_before: int = 0
    """Entries of which it is known that they were added up to the id, where that is known."""


def parse_page(
    info: Mapping[str, Any], entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]], *, asked: int
) -> StreamPage:
    """From what XINFO STREAM says, and what XRANGE gave when asked for so many entries."""
    first = info.get("first-entry")
    return StreamPage(
        entries=entries,
        entries_added=int(info["entries-added"]),
        length=int(info["length"]),
        first_id=_text(first[0]) if first else None,
        last_id=_text(info["last-generated-id"]),
        is_complete=len(entries) < asked,
    )


EMPTY_PAGE: Final = StreamPage((), 0, 0, None, entry_ids.MIN, is_complete=True)
"""What a stream looks like that does not exist."""


class StreamCursor:
    """A place in a stream. `read` is called once in each `step`, so the caller decides how and when to wait."""

    def __init__(self, read: Callable[[str], StreamPage], after: str = entry_ids.MIN) -> None:
        self.position = after
        self._read = read
        # How many entries were ever added up to the position, or at least so many while that is not exact.
        self._index = 0
        self._exact = after == entry_ids.MIN

    def step(self) -> Iterator[StreamEntry | Gap]:
        """What came since the last step: at most one gap, then entries. A bad entry raises and is passed by."""
        found = self._read(self.position)
        if entry_ids.parse(found.last_id) < entry_ids.parse(self.position):
            # Made again with lower ids: nothing after the position would ever come.
            yield self._gap(found, 0, restarted=True)
            self.position, self._index, self._exact = entry_ids.MIN, 0, True
            return
        # What is cold was moved and not lost, whoever joined after it.
        self._index = max(self._index, found.added_before)
        gap = self._evicted(found)
        if gap is not None:
            yield gap
        for raw_id, fields in found.entries:
            self.position = _text(raw_id)
            self._index += 1
            yield _entry(self.position, fields)
        if found.is_complete:
            self._index, self._exact = found.entries_added, True

    def _evicted(self, found: StreamPage) -> Gap | None:
        removed = found.entries_added - found.length
        if found.first_id is not None and entry_ids.parse(found.first_id) <= entry_ids.parse(self.position):
            # Nothing after the position is gone, and what is gone came before it.
            if not self._exact:
                self._index = max(self._index, removed + 1)
            return None
        lost = removed - self._index
        gap = None
        if lost < 0:
            # Fewer entries are gone than were read, and none of those is left: they were another stream's.
            gap = self._gap(found, removed, restarted=True)
        elif lost > 0:
            gap = self._gap(found, lost)
        self._index, self._exact = removed, True
        if found.first_id is None:
            self.position = found.last_id
        return gap

    def _gap(self, found: StreamPage, entries: int, *, restarted: bool = False) -> Gap:
        return Gap(self.position, found.first_id, entries, self._exact and not restarted, restarted)


def _entry(entry_id: str, fields: Mapping[bytes, bytes]) -> StreamEntry:
    missing = [name.decode() for name in (keys.ENTRY_ID, keys.ENTRY_DATA) if name not in fields]
    if missing:
        raise errors.BadBurst(
            reason=f"entry {entry_id}: it has no field {' and no field '.join(missing)}", entry=entry_id
        )
    session = fields[keys.ENTRY_ID]
    if not session.isdigit() or len(session) > _SESSION_ID_DIGITS:
        raise errors.BadBurst(reason=f"entry {entry_id}: {session!r} is no stream session id", entry=entry_id)
    return StreamEntry(entry_id, int(session), fields[keys.ENTRY_DATA])


_SESSION_ID_DIGITS: Final = 20


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
