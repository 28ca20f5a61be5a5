"""The limit on streams that are compacted in an hour. Pure."""

from collections import deque
from typing import Final

HOUR_S: Final = 3600


class HourlyLimit:
    """Counts the streams whose compaction began in the last hour."""

    def __init__(self) -> None:
        self._begun_s: deque[float] = deque()

    def may_begin(self, at_s: float, streams_per_hour: int) -> bool:
        """Whether fewer streams than allowed were begun in the hour before a time."""
        while self._begun_s and self._begun_s[0] < at_s - HOUR_S:
            self._begun_s.popleft()
        return len(self._begun_s) < streams_per_hour

    def note_begin(self, at_s: float) -> None:
        self._begun_s.append(at_s)
