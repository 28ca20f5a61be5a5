"""Which sources are divided by days and how long a day is kept, as the settings say."""

from typing import Final

import msgspec

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
        return self.partition == DAY

    def first_kept(self, today: int) -> int | None:
        """The oldest day that stays; None: all of them do."""
        return today - self.keep_days if self.keep_days else None


class SourceDaysSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is different for one source; what is absent is as for all."""

    partition: str | None = None
    keep_days: int | None = None


class DaysSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partition: str = NONE
    keep_days: int = 7
    sources: dict[str, SourceDaysSettings] = {}

    @property
    def is_used(self) -> bool:
        """Whether any source is divided."""
        return DAY in (self.partition, *(one.partition for one in self.sources.values()))

    def rules_for(self, source: str) -> DayRules:
        """What holds for a source."""
        own = self.sources.get(source, SourceDaysSettings())
        return DayRules(
            self.partition if own.partition is None else own.partition,
            self.keep_days if own.keep_days is None else own.keep_days,
        )

    def day_of(self, stream: str) -> day_streams.Day | None:
        """The day that a stream is of, None where its source is not divided."""
        day = day_streams.parse(stream)
        return day if day is not None and self.rules_for(day.source).is_by_day else None


def check(settings: DaysSettings, *, closed_ttl_s: int) -> None:
    _check_one("days", settings.rules_for(""), closed_ttl_s)
    for source in settings.sources:
        where = f'days.sources."{source}"'
        _check_one(where, settings.rules_for(source), closed_ttl_s)
        day_streams.check_source(source)
        if (day := settings.day_of(source)) is not None and not settings.rules_for(source).is_by_day:
            reason = f"it is called like a day of {day.source!r}, which has a stream per day"
            raise errors.BadConfiguration(where=f"{where}.partition", reason=reason)


def _check_one(where: str, rules: DayRules, closed_ttl_s: int) -> None:
    if rules.partition not in PARTITIONS:
        raise errors.BadConfiguration(where=f"{where}.partition", reason=f"it is one of {', '.join(PARTITIONS)}")
    if rules.keep_days < 0:
        raise errors.BadConfiguration(where=f"{where}.keep_days", reason="it is below 0")
    if 0 < rules.keep_days * day_streams.DAY_S < closed_ttl_s:
        reason = "it is less than session.closed_ttl_s: sessions would outlive their stream"
        raise errors.BadConfiguration(where=f"{where}.keep_days", reason=reason)
