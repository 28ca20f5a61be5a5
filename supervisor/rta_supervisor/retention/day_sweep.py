"""The days' part of the trimming duty: whole old days go, and the index of each source is kept in order.

A day goes by its date, and once its last entry is as old: a session that lived past midnight is kept for as long as any
other. How one day is removed is `removal`'s.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.day_removal import DayRemover, RemovalTerms
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, keys

STEADY_CLOCK_MS: Final = 3_600_000
"""After a jump of the clock no day goes for so long: it may be a mistake that somebody corrects."""

PLAUSIBLE_AHEAD_MS: Final = day_streams.DAY_MS
"""An entry from further ahead has an id that its writer made up: it keeps no day."""

OPENING_DAYS: Final = 1
"""A day that stands in the index and nowhere else may be that of a session that is being opened, for so long."""


class DaySweepResult(msgspec.Struct, frozen=True):
    """What one pass found and did."""

    streams: frozenset[str] = frozenset()
    """Streams of days: nobody else removes them."""
    removed: tuple[str, ...] = ()


EMPTY_SWEEP: Final = DaySweepResult()


class DaySweep:
    """One pass over all days now and then."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        clock: Clock = now_ms,
        steady_since_ms: Clock = lambda: now_ms.steady_since_ms,
    ) -> None:
        self._link = link
        self._config = config
        self._clock = clock
        self._steady_since_ms = steady_since_ms
        self._days = DayIndex(link, config, clock)
        self._removal = DayRemover(link, config.keys)
        self._log = log.get(duty="trim")

    async def sweep(self, used_ms: Mapping[str, float], busy: Collection[str], until_ms: int) -> DaySweepResult:
        """`used_ms`: streams that are looked after. `busy`: those with an open session, which stay."""
        there = [day for name in used_ms if (day := day_streams.parse(name)) is not None]
        listed = await self._days.days_by_source({day.source for day in there})
        known = {day for some in listed.values() for day in some}
        ours = [day for day in there if day in known or self._config.days.day_of(day.stream) is not None]
        missing: dict[str, list[day_streams.Day]] = {day.source: [] for day in ours}
        for day in ours:
            missing[day.source] += [day] if day not in known else []
        await self._days.add_missing(missing)
        await self._tidy(known.difference(there))
        removed = []
        for day in sorted(ours):
            loop_watch.report_alive()
            if day.stream not in busy and await self._remove(day, used_ms[day.stream], until_ms):
                removed.append(day.stream)
        return DaySweepResult(frozenset(day.stream for day in ours), tuple(removed))

    async def _remove(self, day: day_streams.Day, used_ms: float, until_ms: int) -> bool:
        """Whether the day was too old and is gone."""
        at_ms = self._clock()
        first_kept = self._config.days.rules_for(day.source).first_kept(day_streams.number_at(at_ms))
        if first_kept is None or day.number >= first_kept or at_ms - self._steady_since_ms() < STEADY_CLOCK_MS:
            return False
        keep_ms = self._config.days.rules_for(day.source).keep_days * day_streams.DAY_MS
        terms = RemovalTerms(
            before_ms=at_ms - keep_ms, plausible_until_ms=at_ms + PLAUSIBLE_AHEAD_MS, until_ms=until_ms
        )
        try:
            is_gone = await self._removal.remove(day, used_ms, terms)
        except redis.exceptions.ResponseError as error:
            # One key of a wrong type keeps no other day from being removed.
            self._log.error("day_not_removed", stream=day.stream, error=str(error))
            return False
        if is_gone:
            counters.counts.days_removed += 1
            self._log.info("day_removed", source=day.source, stream=day.stream)
        return is_gone

    async def _tidy(self, strays: Collection[day_streams.Day]) -> None:
        """Days of which the index alone knows: what there is of them is looked after, others were never used."""
        today = day_streams.number_at(self._clock())
        old = [day for day in strays if day.number < today - OPENING_DAYS]
        answers = await self._link.do_all(
            [("EXISTS", key) for day in old for key in (keys.stream(day.stream), keys.cold_stream(day.stream))]
        )
        is_there = [any(pair) for pair in zip(answers[::2], answers[1::2], strict=True)]
        await self._days.track_streams([day for day, there in zip(old, is_there, strict=True) if there])
        await self._days.drop([day for day, there in zip(old, is_there, strict=True) if not there])
