"""What a sweep over days decides: which days there are, what the index lacks, and which day is too old."""

import pytest

from rta_supervisor.retention import day_sweep_rules
from rta_supervisor.retention.day_sweep_rules import STEADY_CLOCK_MS, DayCutoff
from rta_supervisor.settings.sections.days import DayRules, DaysSettings, SourceDaysSettings
from rta_wire import day_streams

TODAY = 20_500
TODAY_MS = TODAY * day_streams.DAY_MS
BY_DAY = DaysSettings(partition="day")


def day(ago: int, source: str = "rig") -> day_streams.Day:
    return day_streams.Day(source, TODAY - ago)


@pytest.mark.parametrize(
    ("ago", "keep_days", "steady_ms", "is_old"),
    [(3, 2, 10**10, True), (2, 2, 10**10, False), (3, 0, 10**10, False), (3, 2, STEADY_CLOCK_MS - 1, False)],
)
def test_when_a_day_is_too_old(ago: int, keep_days: int, steady_ms: int, is_old: bool) -> None:
    """By its date; not where all days are kept, and not within an hour of a jump of the clock."""
    cutoff = day_sweep_rules.cutoff(day(ago), DayRules("day", keep_days), TODAY_MS, TODAY_MS - steady_ms)
    expected = DayCutoff(TODAY_MS - 2 * day_streams.DAY_MS, TODAY_MS + day_streams.DAY_MS)
    assert cutoff == (expected if is_old else None)


def test_the_last_entry_keeps_a_day() -> None:
    """Where it is younger than the days that are kept, but not where its time lies too far ahead to be true."""
    cutoff = DayCutoff(before_ms=100, plausible_until_ms=200)
    assert [cutoff.keeps(last_ms) for last_ms in (99, 100, 199, 200, 2**64 - 1)] == [False, True, True, False, False]


def test_streams_are_compared_with_the_index() -> None:
    """A stream is a day where its source is divided, or where the index has it from a time when it was."""
    undivided = SourceDaysSettings(partition="none")
    config = DaysSettings(partition="day", sources={"plain": undivided, "former": undivided})
    used = [day(0), day(1), day(4, "plain"), day(2, "former")]
    comparison = day_sweep_rules.compare(used, {"rig": [day(3), day(1)], "former": [day(2, "former")]}, config)
    assert comparison.days == [day(0), day(1), day(2, "former")]
    assert comparison.missing == {"rig": [day(0)], "former": []}
    assert comparison.index_only == [day(3)]


def test_a_young_day_in_the_index_alone_may_be_opening() -> None:
    """Yesterday's too: a session that is opened at midnight takes a moment."""
    assert [day_sweep_rules.may_be_opening(day(ago), TODAY_MS) for ago in (0, 1, 2)] == [True, True, False]
