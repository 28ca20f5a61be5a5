"""What writers reported lately, in memory: the catalogue is a moment behind, and Redis may lose that moment."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from rta_wire.control.report_merge import SessionKey
from rta_wire.control.totals import Totals

KEEP_S: Final = 30.0
"""Reports are kept for once or twice this long, many times what the catalogue is behind."""


class RecentReports:
    """The latest totals of each unit that reported lately."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._rotated_s = clock_s()
        self._recent: dict[SessionKey, dict[str, Totals]] = {}
        self._older: dict[SessionKey, dict[str, Totals]] = {}

    def add(self, reports: Mapping[SessionKey, Mapping[str, Totals]]) -> None:
        """Remember reports that Redis has taken."""
        if self._clock_s() - self._rotated_s > KEEP_S:
            self._rotated_s = self._clock_s()
            self._older, self._recent = self._recent, {}
        for key, units in reports.items():
            if key in self._recent:
                self._recent[key].update(units)
            else:
                self._recent[key] = dict(units)

    def latest_totals(self) -> dict[SessionKey, dict[str, Totals]]:
        """The latest totals by session and unit."""
        return {key: self._older.get(key, {}) | self._recent.get(key, {}) for key in (self._older | self._recent)}
