"""Counts per span of time in Redis, for hosts without Prometheus: short spans for minutes, long ones for a day.

All supervisors add to the same slots. A slot is a hash that expires by itself. What an outage keeps from being added is
added after it, to the span in which that happens; what it interrupts may be added twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import keys


class HistoryScale(msgspec.Struct, frozen=True):
    """How long a slot is, and how long it is kept."""

    slot_s: int
    kept_s: int

    @property
    def slots(self) -> int:
        return math.ceil(self.kept_s / self.slot_s)

    @property
    def ttl_s(self) -> int:
        """The slot that is being filled counts too."""
        return self.kept_s + self.slot_s


SCALES: Final = {
    "5m": HistoryScale(slot_s=5, kept_s=5 * 60),
    "2h": HistoryScale(slot_s=100, kept_s=2 * 3600),
    "24h": HistoryScale(slot_s=1000, kept_s=24 * 3600),
}
EVERY_S: Final = SCALES["5m"].slot_s


class HistoryRecorder:
    """Adds what was counted since the last time."""

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
        """`at_ms`: a moment in the span that the counts are of."""
        at_s = (self._clock() if at_ms is None else at_ms) // 1000
        totals = self._counts.history_sums()
        grown = {name: value - self._recorded[name] for name, value in totals.items() if value != self._recorded[name]}
        if not grown:
            return
        words = [word for pair in grown.items() for word in pair]
        try:
            await self._link.do_all([self._call(scale, at_s // scale.slot_s, words) for scale in SCALES.values()])
        except RETRIABLE_ERRORS as error:
            self._link.outage_log.log_failure(error)
            return
        self._recorded = totals

    def _call(self, scale: HistoryScale, number: int, words: Sequence[commands.Argument]) -> commands.Command:
        return ("FCALL", "rtas_count_1", 1, self._keys.history_slot(scale.slot_s, number), scale.ttl_s, *words)


class History(msgspec.Struct, frozen=True):
    """Counts of a scale, the oldest first. The slot that is being filled is the last."""

    slot_s: int
    first_ms: int
    counts: dict[str, list[int]]


async def read_history(link: Link, names: keys.Keys, scale: HistoryScale, at_ms: int | None = None) -> History:
    last = (now_ms() if at_ms is None else at_ms) // 1000 // scale.slot_s
    numbers = range(last - scale.slots + 1, last + 1)
    answers = await link.do_all([("HGETALL", names.history_slot(scale.slot_s, number)) for number in numbers])
    return History(scale.slot_s, numbers[0] * scale.slot_s * 1000, _columns([pairs_to_dict(flat) for flat in answers]))


def _columns(slots: Sequence[Mapping[bytes, bytes]]) -> dict[str, list[int]]:
    wanted: list[Any] = [*counters.Counts().history_sums(), *(name.decode() for slot in slots for name in slot)]
    return {name: [int(slot.get(name.encode(), 0)) for slot in slots] for name in dict.fromkeys(wanted)}
