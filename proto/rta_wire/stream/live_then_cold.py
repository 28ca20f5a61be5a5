"""The one rule for reading a stream whose beginning may be cold: what comes next, and what was lost. No I/O."""

from collections.abc import Mapping, Sequence

import msgspec

from rta_wire import entry_ids
from rta_wire.stream import cold_index, cursor


def live_page(live: cursor.StreamPage, held: cold_index.ColdExtent) -> cursor.StreamPage:
    """What was found live above what is cold: everything up to there is accounted for."""
    return live._replace(added_before=held.added)


def cold_page(held: cold_index.ColdExtent, entries: Sequence[tuple[str, Sequence[bytes]]]) -> cursor.StreamPage:
    """Entries from the cold stream with the counters of that part: what follows is read in the next step."""
    found: list[tuple[bytes, Mapping[bytes, bytes]]] = [
        (entry_id.encode(), dict(zip(fields[::2], fields[1::2], strict=True))) for entry_id, fields in entries
    ]
    return cursor.StreamPage(found, held.added, held.entries, held.first_id, held.last_id, is_complete=False)


class StreamCounters(msgspec.Struct, frozen=True):
    """A stream at one moment, live and cold together."""

    first_id: str | None = None
    last_id: str = entry_ids.MIN
    added: int = 0
    length: int = 0
    live_first_id: str | None = None
    cold_id: str = entry_ids.MIN
    """Up to where it is cold."""
    cold_added: int = 0
    """Entries that were ever added up to there."""
    gap_entries: int = 0
    """Entries that are gone between what is cold and what is live: for as long as nobody has trimmed what is cold."""

    @property
    def removed(self) -> int:
        """Entries that are gone, from the front but for the hole."""
        return self.added - self.length

    def first_after(self, position: str) -> str | None:
        """The first entry that is left of the part that a place is in."""
        is_cold = entry_ids.parse(position) < entry_ids.parse(self.cold_id)
        return self.first_id if is_cold else self.live_first_id

    def removed_after(self, added: int) -> int:
        """Entries that are gone after a place up to which so many were ever added."""
        if added >= self.cold_added:
            last_removed = self.gap_entries + self.cold_added if self.cold_added else self.removed
            return max(0, last_removed - added)
        return max(0, self.removed - self.gap_entries - added) + self.gap_entries


def combine_counters(live: cursor.StreamPage | None, held: cold_index.ColdExtent | None) -> StreamCounters:
    """From what the live stream says, None where there is none, and what the index said after that."""
    if live is None and held is None:
        return StreamCounters()
    if held is None:
        assert live is not None
        return StreamCounters(live.first_id, live.last_id, live.entries_added, live.length, live.first_id)
    if live is None or live.entries_added < held.added:
        # The live stream was lost, and perhaps made anew: its count began again.
        more = live.length if live is not None else 0
        last_id = held.last_id if live is None or held.is_ahead_of(live.last_id) else live.last_id
        added, length, hole = held.added + more, held.entries + more, 0
    else:
        # Entries that are cold already may still stand in the live stream: they count once.
        above = min(live.length, live.entries_added - held.added)
        hole = max(0, live.entries_added - live.length - held.added)
        added, length, last_id = live.entries_added, held.entries + above, live.last_id
    first_id = live.first_id if live is not None else None
    return StreamCounters(held.first_id, last_id, added, length, first_id, held.last_id, held.added, hole)
