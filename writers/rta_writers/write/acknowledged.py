"""What this process was told is in the stream, by unit. A mark that says less means that Redis lost rows.

Within an epoch an attempt knows its own rows. The next epoch of a unit starts from nothing, and what was lost of the
one before it would be nobody's gap: no report of it may have come through before Redis lost it.
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
    """One unit of one session."""

    redis_url: str
    identity: str
    marks: str
    unit: str


class AcknowledgedRows(NamedTuple):
    """Rows of an epoch that stood in the stream at a time."""

    epoch: int
    rows: int
    at_s: float


class AcknowledgedUnits:
    """The last that was acknowledged of each unit, as many units as fit."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._units: OrderedDict[UnitKey, AcknowledgedRows] = OrderedDict()

    def record(self, place: UnitKey, epoch: int, rows: int) -> None:
        self._units[place] = AcknowledgedRows(epoch, rows, self._clock_s())
        self._units.move_to_end(place)
        if len(self._units) > UNITS_MAX:
            self._units.popitem(last=False)

    def clear(self) -> None:
        """Everything: who emptied the server on purpose has no loss to be told of."""
        self._units.clear()

    def pop_missing(self, place: UnitKey, mark: Mark, *, epoch: int) -> AcknowledgedRows | None:
        """What was acknowledged of a unit and is not there. Told once: whoever goes on after that knows.

        Not of `epoch` itself: an attempt at it writes its rows anew, or finds the gap by itself."""
        known = self._units.get(place)
        if known is None or known.epoch == epoch or mark.rows_done(known.epoch) >= known.rows:
            return None
        del self._units[place]
        return known if self._clock_s() - known.at_s < KEEP_S else None


acknowledged_units: Final = AcknowledgedUnits()
"""Of this process."""
