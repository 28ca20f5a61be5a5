"""Finds rows that Redis acknowledged to this process and then lost: the mark of their unit says less.

Within an epoch an attempt counts its own rows. The next epoch of a unit counts from 0, so what Redis lost of the one
before would be noticed by nobody: perhaps no report of it reached the supervisor.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from rta_wire.control.totals import Mark

UNITS_MAX: Final = 10_000
KEEP_S: Final = 24 * 3600
"""Marks live for days: what is younger than this can't have expired."""


class UnitKey(NamedTuple):
    """A unit of a session."""

    redis_url: str
    identity: str
    marks: str
    unit: str


class AcknowledgedRows(NamedTuple):
    """Rows of an epoch that were in the stream at a time."""

    epoch: int
    rows: int
    at_s: float


class AcknowledgedUnits:
    """The last acknowledged rows of each unit, for a bounded number of units."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._units: OrderedDict[UnitKey, AcknowledgedRows] = OrderedDict()

    def record(self, key: UnitKey, epoch: int, rows: int) -> None:
        """Note that the first `rows` rows of an epoch are in the stream."""
        self._units[key] = AcknowledgedRows(epoch, rows, self._clock_s())
        self._units.move_to_end(key)
        if len(self._units) > UNITS_MAX:
            self._units.popitem(last=False)

    def clear(self) -> None:
        """Remove all units, for a server that was emptied on purpose."""
        self._units.clear()

    def pop_missing(self, key: UnitKey, mark: Mark, *, epoch: int) -> AcknowledgedRows | None:
        """Rows that were acknowledged and that the mark does not have, None where there are none.

        Gives them once: the caller reports the loss, and goes on after that. Rows of `epoch` itself are not looked at:
        an attempt at it writes them anew, or finds the gap by itself.
        """
        rows = self._units.get(key)
        if rows is None or rows.epoch == epoch or mark.rows_done(rows.epoch) >= rows.rows:
            return None
        del self._units[key]
        return rows if self._clock_s() - rows.at_s < KEEP_S else None


acknowledged_units: Final = AcknowledgedUnits()
"""The acknowledged units of this process."""
