"""The part of the trimming duty that is about days of sources: removes whole old days, and keeps the index of each
source complete.

Which day is too old is decided in `day_sweep_rules`; how one is removed is in `day_removal`.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention import day_sweep_rules
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.day_removal import DayRemover
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, keys


class DaySweepResult(msgspec.Struct, frozen=True):
    """What one sweep found and removed."""

    streams: frozenset[str] = frozenset()
    """Streams of days: they are removed by their date and not because they are idle."""
    removed: tuple[str, ...] = ()


EMPTY_SWEEP: Final = DaySweepResult()


class DaySweep:
    """Sweeps over the days of all sources."""

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
        self._index = DayIndex(link, config, clock)
        self._remover = DayRemover(link, config.keys)
        self._log = log.get(duty="trim")

    async def sweep(self, last_use_ms: Mapping[str, float], busy: Collection[str], until_ms: int) -> DaySweepResult:
        """Bring the indexes of days up to date, and remove the streams of days that are too old.

        `last_use_ms`: every stream that a session used. `busy`: streams that may not be removed.
        """
        used = [day for stream in last_use_ms if (day := day_streams.parse(stream)) is not None]
        indexed = await self._index.days_by_source({day.source for day in used})
        comparison = day_sweep_rules.compare(used, indexed, self._config.days)
        await self._index.add_missing(comparison.missing)
        await self._tidy_index(comparison.index_only)
        removed = []
        for day in sorted(comparison.days):
            loop_watch.report_alive()
            if day.stream not in busy and await self._remove_if_old(day, last_use_ms[day.stream], until_ms):
                removed.append(day.stream)
        return DaySweepResult(frozenset(day.stream for day in comparison.days), tuple(removed))

    async def _remove_if_old(self, day: day_streams.Day, last_use_ms: float, until_ms: int) -> bool:
        """Whether the day was too old and is gone."""
        rules = self._config.days.rules_for(day.source)
        cutoff = day_sweep_rules.cutoff(day, rules, self._clock(), self._steady_since_ms())
        if cutoff is None:
            return False
        try:
            is_gone = await self._remover.remove(day, last_use_ms, cutoff, until_ms)
        except redis.exceptions.ResponseError as error:
            # One key of a wrong type keeps no other day from being removed.
            self._log.error("day_not_removed", stream=day.stream, error=str(error))
            return False
        if is_gone:
            counters.counts.days_removed += 1
            self._log.info("day_removed", source=day.source, stream=day.stream)
        return is_gone

    async def _tidy_index(self, index_only: Collection[day_streams.Day]) -> None:
        """Days that only the index has: where their stream exists it is tracked again, else they leave the index."""
        at_ms = self._clock()
        days = [day for day in index_only if not day_sweep_rules.may_be_opening(day, at_ms)]
        replies = await self._link.do_all(
            [("EXISTS", key) for day in days for key in (keys.stream(day.stream), keys.cold_stream(day.stream))]
        )
        has_stream = [any(pair) for pair in zip(replies[::2], replies[1::2], strict=True)]
        await self._index.track_streams([day for day, exists in zip(days, has_stream, strict=True) if exists])
        await self._index.drop([day for day, exists in zip(days, has_stream, strict=True) if not exists])
