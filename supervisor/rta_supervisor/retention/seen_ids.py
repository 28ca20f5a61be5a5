"""Which last id a stream had at which time, from which follows how long its entries have been in Redis. Pure."""

from collections import deque

import msgspec

from rta_wire import entry_ids


class SeenId(msgspec.Struct, frozen=True):
    """The last id of a stream at one time."""

    at_s: float
    last_id: str


class SeenIds:
    """The last ids of one stream that sweeps have seen, oldest first."""

    def __init__(self) -> None:
        self._seen: deque[SeenId] = deque()

    def note(self, at_s: float, last_id: str) -> None:
        if self._seen and entry_ids.is_after(self._seen[-1].last_id, last_id):
            # Redis lost data, or the stream was created again: what was seen says nothing about its entries now.
            self._seen.clear()
        self._seen.append(SeenId(at_s, last_id))

    def last_id_at(self, at_s: float) -> str | None:
        """An id up to which all entries were there at a time. None: no sweep looked that early.

        What was seen before that time is forgotten.
        """
        while len(self._seen) > 1 and self._seen[1].at_s <= at_s:
            self._seen.popleft()
        return self._seen[0].last_id if self._seen and self._seen[0].at_s <= at_s else None
