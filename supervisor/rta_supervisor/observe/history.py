"""The history of counts in Redis, for hosts without Prometheus: in short slots of time for minutes, in long ones for a
day.

All supervisors add to the same slots. A slot is a hash that expires by itself. What can't be added during an outage is
added after it, to the slot of that time; a call that an outage interrupts may be added twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.observe import server_functions
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import keys


class HistoryScale(msgspec.Struct, frozen=True):
    """One resolution of the history: how long a slot is, and how far back slots go."""

    slot_s: int
    range_s: int

    @property
    def slots(self) -> int:
        return math.ceil(self.range_s / self.slot_s)

    @property
    def ttl_s(self) -> int:
        """How long a slot is kept from its last change: the range, and the slot that is being filled."""
        return self.range_s + self.slot_s


SCALES: Final = {
    "5m": HistoryScale(slot_s=5, range_s=5 * 60),
    "2h": HistoryScale(slot_s=100, range_s=2 * 3600),
    "24h": HistoryScale(slot_s=1000, range_s=24 * 3600),
}
EVERY_S: Final = SCALES["5m"].slot_s


class HistoryRecorder:
    """Adds what this supervisor counted to the history."""

    def __init__(self, link: Link, names: keys.Keys, counts: counters.Counts, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = names
        self._counts = counts
        self._clock = clock
        self._recorded = counts.history_sums()
        self._log = log.get(duty="slots")

    async def run(self) -> None:
        """Add at the end of each of the shortest slots until cancelled."""
        await periodic.every(
            lambda: EVERY_S - self._clock() / 1000 % EVERY_S,
            lambda: self.flush(at_ms=self._clock() - 1000),
            self._link.outage_log,
        )

    async def flush(self, at_ms: int | None = None) -> None:
        """Add what was counted since the last time. `at_ms`: a moment in the slot that it goes to; None is now."""
        at_s = (self._clock() if at_ms is None else at_ms) // 1000
        totals = self._counts.history_sums()
        grown = {name: value - self._recorded[name] for name, value in totals.items() if value != self._recorded[name]}
        if not grown:
            return
        commands = [
            server_functions.add_counts(self._keys, scale.slot_s, at_s // scale.slot_s, grown, ttl_s=scale.ttl_s)
            for scale in SCALES.values()
        ]
        try:
            await self._link.do_all(commands)
        except RETRIABLE_ERRORS as error:
            self._link.outage_log.log_failure(error)
            return
        self._recorded = totals


class History(msgspec.Struct, frozen=True):
    """Counts of one scale, as `stats --json` prints them."""

    slot_s: int
    first_ms: int
    """When the first slot began."""
    counts: dict[str, list[int]]
    """A count for each slot by name, the oldest first. The last slot is still being filled."""


async def read_history(link: Link, names: keys.Keys, scale: HistoryScale, at_ms: int | None = None) -> History:
    """All slots of a scale that end with the one of `at_ms`; None is now."""
    last = (now_ms() if at_ms is None else at_ms) // 1000 // scale.slot_s
    numbers = range(last - scale.slots + 1, last + 1)
    replies = await link.do_all([("HGETALL", names.history_slot(scale.slot_s, number)) for number in numbers])
    return History(scale.slot_s, numbers[0] * scale.slot_s * 1000, _columns([pairs_to_dict(flat) for flat in replies]))


def _columns(slots: Sequence[Mapping[bytes, bytes]]) -> dict[str, list[int]]:
    """Counts by name: those of this version, and others that a newer supervisor may have added."""
    names: list[str] = [*counters.Counts().history_sums(), *(name.decode() for slot in slots for name in slot)]
    return {name: [int(slot.get(name.encode(), 0)) for slot in slots] for name in dict.fromkeys(names)}
