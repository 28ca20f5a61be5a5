"""Which entry id a stream had reached by when: the boundary of trimming by age. Pure."""

from collections import deque

import msgspec

from rta_wire import entry_ids


class SeenId(msgspec.Struct, frozen=True):
    """Where a stream ended at a moment."""

    at_s: float
    last_id: str


class SeenIds:
    """Which entries of a stream have been there for long enough, told by looking now and then."""

    def __init__(self) -> None:
        self._seen: deque[SeenId] = deque()

    def note(self, at_s: float, last_id: str) -> None:
        if self._seen and entry_ids.is_after(self._seen[-1].last_id, last_id):
            # Redis lost data or the stream was made anew: what was noted says nothing about these entries.
            self._seen.clear()
        self._seen.append(SeenId(at_s, last_id))

    def last_id_at(self, at_s: float) -> str | None:
        """Entries below this id stood there at that time. None: nobody looked that early."""
        while len(self._seen) > 1 and self._seen[1].at_s <= at_s:
            self._seen.popleft()
        return self._seen[0].last_id if self._seen and self._seen[0].at_s <= at_s else None
