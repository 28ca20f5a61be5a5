"""What a sweep over the days of sources decides: which streams are days, what the index lacks, which day is too old.
Pure.

A day is removed by its date, and once its last entry is as old: a session that went on past midnight is kept for as
long as any other.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from rta_supervisor.settings.sections.days import DayRules, DaysSettings
from rta_wire import day_streams

STEADY_CLOCK_MS: Final = 3_600_000
"""After a jump of the clock no day is removed for this long: the jump may be a mistake that is corrected."""

PLAUSIBLE_AHEAD_MS: Final = day_streams.DAY_MS
"""An entry further ahead of the clock has an id that its writer made up: it keeps no day."""

OPENING_DAYS: Final = 1
"""A day this young that is in the index and nowhere else may be the one of a session that is being opened."""


class DayCutoff(msgspec.Struct, frozen=True):
    """How old the last entry of a day has to be for the day to be removed."""

    before_ms: int
    plausible_until_ms: int

    def keeps(self, last_ms: int) -> bool:
        """Whether a stream whose last entry is of this time stays."""
        return self.before_ms <= last_ms < self.plausible_until_ms


def cutoff(day: day_streams.Day, rules: DayRules, at_ms: int, steady_since_ms: int) -> DayCutoff | None:
    """The cutoff for a day that is too old by its date. None: it is not, or the clock is not to be trusted yet.

    `steady_since_ms`: when the clock last jumped.
    """
    first_kept = rules.first_kept(day_streams.number_at(at_ms))
    if first_kept is None or day.number >= first_kept or at_ms - steady_since_ms < STEADY_CLOCK_MS:
        return None
    return DayCutoff(at_ms - rules.keep_days * day_streams.DAY_MS, at_ms + PLAUSIBLE_AHEAD_MS)


class DayComparison(msgspec.Struct, frozen=True):
    """Days that have a stream, compared with the days in the indexes of their sources."""

    days: list[day_streams.Day]
    """Days that have a stream."""
    missing: dict[str, list[day_streams.Day]]
    """By source of these days: those that its index lacks."""
    index_only: list[day_streams.Day]
    """Days in an index that no stream in use is of."""


def compare(
    used: Iterable[day_streams.Day], indexed: Mapping[str, Collection[day_streams.Day]], config: DaysSettings
) -> DayComparison:
    """Compare the days that have a stream with the days in the indexes of their sources.

    `used`: streams that are called after a day. One counts as a day where its source is divided by days, or was when
    the stream began: then the index has it.
    """
    named = list(used)
    in_index = {day for days in indexed.values() for day in days}
    days = [day for day in named if day in in_index or config.day_of(day.stream) is not None]
    missing: dict[str, list[day_streams.Day]] = {day.source: [] for day in days}
    for day in days:
        if day not in in_index:
            missing[day.source].append(day)
    return DayComparison(days, missing, sorted(in_index.difference(named)))


def may_be_opening(day: day_streams.Day, at_ms: int) -> bool:
    """Whether a day that only the index has may be the one of a session that is being opened."""
    return day.number >= day_streams.number_at(at_ms) - OPENING_DAYS
