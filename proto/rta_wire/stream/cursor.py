"""Follows a stream: every entry once, and a gap wherever entries were removed before they could be read.

Does no I/O: the caller passes a function that reads a page of entries together with the stream's counters, both from
one moment (MULTI, XINFO STREAM, XRANGE, EXEC). Redis does not say which entries a trim removed, but it counts every
entry ever added: those that were added and are gone were removed from the front.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rta_wire import entry_ids, errors, keys, quoting


class StreamEntry(NamedTuple):
    """One entry of a stream: a burst of a session."""

    id: str
    stream_session_id: int
    data: bytes


class Gap(NamedTuple):
    """Entries after one id and before another that can't be read any more; `before` is None at the end of the stream.

    `entries` is their number, or the most that it can be where the stream was not read from its start and `exact` is
    False. `restarted` means that the stream was removed and made again: entries of the old one are not counted.
    """

    after: str
    before: str | None
    entries: int
    exact: bool = True
    restarted: bool = False


class StreamPage(NamedTuple):
    """The entries of a stream right after an id, up to some number, and the stream's counters at the same moment."""

    entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    entries_added: int
    length: int
    first_id: str | None
    last_id: str
    is_complete: bool
    """Whether `entries` goes to the end of the stream."""
    added_before: int = 0
    """Entries that were ever added up to the id, or a number that is certainly not higher."""


def parse_page(
    info: Mapping[str, Any], entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]], *, asked: int
) -> StreamPage:
    """A page from the replies of XINFO STREAM and of XRANGE with a COUNT of `asked`."""
    first_entry = info.get("first-entry")
    return StreamPage(
        entries=entries,
        entries_added=int(info["entries-added"]),
        length=int(info["length"]),
        first_id=_text(first_entry[0]) if first_entry else None,
        last_id=_text(info["last-generated-id"]),
        is_complete=len(entries) < asked,
    )


EMPTY_PAGE: Final = StreamPage((), 0, 0, None, entry_ids.MIN, is_complete=True)
"""The page of a stream that does not exist."""


class StreamCursor:
    """A position in a stream. `read` gives the page after an id, and is called once in each `step`: waiting for entries
    is left to the caller."""

    def __init__(self, read: Callable[[str], StreamPage], after: str = entry_ids.MIN, added: int | None = None) -> None:
        """`added`: how many entries were ever added up to `after`, where that is known."""
        self.position = after
        self._read = read
        # How many entries were ever added up to the position; a lower bound while `_is_exact` is False.
        self._added = added or 0
        self._is_exact = after == entry_ids.MIN or added is not None

    @property
    def added(self) -> int | None:
        """How many entries were ever added up to the position; None where that is not known."""
        return self._added if self._is_exact else None

    def step(self) -> Iterator[StreamEntry | Gap]:
        """The gap after the position, if there is one, then the entries of the next page. An entry that is malformed
        raises BadBurst; the next step goes on behind it."""
        page = self._read(self.position)
        if entry_ids.is_after(self.position, page.last_id):
            # The stream was made again with lower ids: no entry after the position would ever come.
            yield self._gap_to(page, 0, restarted=True)
            self.position, self._added, self._is_exact = entry_ids.MIN, 0, True
            return
        # Entries before the position that became cold were moved and not lost.
        self._added = max(self._added, page.added_before)
        gap = self._find_gap(page)
        if gap is not None:
            yield gap
        for raw_id, fields in page.entries:
            self.position = _text(raw_id)
            self._added += 1
            yield _parse_entry(self.position, fields)
        if page.is_complete:
            self._added, self._is_exact = page.entries_added, True

    def _find_gap(self, page: StreamPage) -> Gap | None:
        """The gap between the position and the first entry that is left. Moves the counters, and the position where the
        stream is empty, to its end."""
        removed = page.entries_added - page.length
        if page.first_id is not None and not entry_ids.is_after(page.first_id, self.position):
            # All removed entries came before the position.
            if not self._is_exact:
                self._added = max(self._added, removed + 1)
            return None
        lost = removed - self._added
        gap = None
        if not self._is_exact and self.position == page.last_id:
            # The reader began at the end of a stream that is empty: nothing came after that.
            lost = 0
        if lost < 0:
            # Fewer entries were removed than were read, and none of those is left: they were in another stream.
            gap = self._gap_to(page, removed, restarted=True)
        elif lost > 0:
            gap = self._gap_to(page, lost)
        self._added, self._is_exact = removed, True
        if page.first_id is None:
            self.position = page.last_id
        return gap

    def _gap_to(self, page: StreamPage, entries: int, *, restarted: bool = False) -> Gap:
        return Gap(self.position, page.first_id, entries, self._is_exact and not restarted, restarted)


def _parse_entry(entry_id: str, fields: Mapping[bytes, bytes]) -> StreamEntry:
    missing = [name.decode() for name in (keys.ENTRY_ID, keys.ENTRY_DATA) if name not in fields]
    if missing:
        raise errors.BadBurst(
            reason=f"entry {entry_id}: it has no field {' and no field '.join(missing)}", entry=entry_id
        )
    session_id = fields[keys.ENTRY_ID]
    if not session_id.isdigit() or len(session_id) > _SESSION_ID_MAX_DIGITS:
        quoted = quoting.cut(repr(session_id), quoting.NAME_MAX_CHARS)
        raise errors.BadBurst(reason=f"entry {entry_id}: {quoted} is no stream session id", entry=entry_id)
    return StreamEntry(entry_id, int(session_id), fields[keys.ENTRY_DATA])


_SESSION_ID_MAX_DIGITS: Final = 20


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
