"""Section `[days]`: which sources have a stream per day, and how many days of them are kept."""

from collections.abc import Iterator
from typing import Final

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks
from rta_wire import day_streams, errors

NONE: Final = "none"
DAY: Final = "day"
PARTITIONS: Final = (NONE, DAY)


class DayRules(msgspec.Struct, frozen=True):
    """What holds for one source."""

    partition: str
    keep_days: int

    @property
    def is_by_day(self) -> bool:
        """Whether the source has a stream per day."""
        return self.partition == DAY

    def first_kept(self, today: int) -> int | None:
        """The number of the oldest day that is kept; None: all days are."""
        return today - self.keep_days if self.keep_days else None


class SourceDaysSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of one source that differ from those of all; None: as for all."""

    partition: str | None = None
    keep_days: int | None = None


class DaysSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of all sources, and of those that have their own."""

    partition: str = NONE
    keep_days: int = 7
    sources: dict[str, SourceDaysSettings] = {}

    @property
    def is_used(self) -> bool:
        """Whether any source has a stream per day."""
        return DAY in (self.partition, *(source.partition for source in self.sources.values()))

    def rules_for(self, source: str) -> DayRules:
        """The rules of a source: its own, else those of all."""
        overrides = self.sources.get(source, SourceDaysSettings())
        return DayRules(
            self.partition if overrides.partition is None else overrides.partition,
            self.keep_days if overrides.keep_days is None else overrides.keep_days,
        )

    def all_rules(self) -> Iterator[tuple[str, DayRules]]:
        """The dotted name of every table of rules, with the rules that follow from it."""
        yield "days", self.rules_for("")
        for source in self.sources:
            yield _table(source), self.rules_for(source)

    def day_of(self, stream: str) -> day_streams.Day | None:
        """The day that a stream holds; None if its source has one stream for all days."""
        day = day_streams.parse(stream)
        return day if day is not None and self.rules_for(day.source).is_by_day else None

    def check(self) -> None:
        for where, rules in self.all_rules():
            is_unknown = rules.partition not in PARTITIONS
            checks.refuse_first(
                [
                    (f"{where}.partition", is_unknown, f"it is one of {', '.join(PARTITIONS)}"),
                    (f"{where}.keep_days", rules.keep_days < 0, checks.BELOW_0),
                ]
            )
        for source in self.sources:
            checks.refuse_bad_name(_table(source), day_streams.check_source, source)
            if (day := self.day_of(source)) is not None and not self.rules_for(source).is_by_day:
                reason = f"it is called like a day of {day.source!r}, which has a stream per day"
                raise errors.BadConfiguration(where=f"{_table(source)}.partition", reason=reason)


def _table(source: str) -> str:
    return sources.dotted(("days", "sources", source))
