"""Streams per day without a server: names of days, and which settings make sense."""

import datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_supervisor.diagnostics import counters
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_wire import day_streams, errors, keys

sources = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,118}", fullmatch=True)
numbers = st.integers(0, (datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days)


@example("rig.20260101", 20_000)
@example("rig.", 0)
@given(sources, numbers)
def test_a_name_says_source_and_day(source: str, number: int) -> None:
    """Whatever the source is called, be it after a day itself: its day streams are valid names and lead back to it."""
    day = day_streams.Day(day_streams.check_source(source), number)
    assert keys.check_stream_name(day.stream) == day.stream
    assert day_streams.parse(day.stream) == day
    assert day_streams.source_of(day.stream) == source
    assert day_streams.is_stream_of(day.stream, source)
    assert day_streams.is_stream_of(day.stream, day.stream)


@given(st.integers(0, 253_402_300_799_999))
def test_days_are_those_of_utc(at_ms: int) -> None:
    """Midnight is that of UTC, and the start of a day is in it."""
    day = day_streams.Day("rig", day_streams.number_at(at_ms))
    date = datetime.datetime.fromtimestamp(at_ms // 1000, datetime.UTC)
    assert day.stream == f"rig.{date:%Y%m%d}"
    assert day.start_ms <= at_ms < day.start_ms + day_streams.DAY_MS


@given(sources, st.lists(numbers, min_size=2, max_size=20))
def test_names_sort_as_days_do(source: str, some: list[int]) -> None:
    """The later of two days has the later name."""
    made = [day_streams.Day(source, number) for number in some]
    assert [day.stream for day in sorted(made)] == sorted(day.stream for day in made)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "rig",
            "20260101",
            ".20260101",
            "rig20260101",
            "rig-20260101",
            "rig.2026010",
            "rig.20260101.",
            "rig.202601011",
        ),
        *(
            "rig.20261301",
            "rig.20260230",
            "rig.00000101",
            "rig.19691231",
            "rig.\u0662\u0660260101",
            "rig.20260101\n",
            "rig.latest",
        ),
    ],
)
def test_other_names_are_of_no_day(name: str) -> None:
    """A stream that is not called after a day is its own source."""
    assert day_streams.parse(name) is None
    assert day_streams.source_of(name) == name


def test_a_source_leaves_room_for_its_days() -> None:
    """The name of a stream has a limit, and each day takes nine characters of it."""
    assert len(day_streams.Day(day_streams.check_source("x" * 119), 0).stream) == 128
    with pytest.raises(errors.BadName, match="at most 119 characters"):
        day_streams.check_source("x" * 120)


def test_what_holds_for_a_source() -> None:
    """What is set for a source, else what is set for all."""
    own = {"a": sections_days.SourceDaysSettings(partition="day"), "b": sections_days.SourceDaysSettings(keep_days=30)}
    config = sections_days.DaysSettings(keep_days=3, sources=own)
    assert config.rules_for("a") == sections_days.DayRules("day", 3)
    assert config.rules_for("b") == sections_days.DayRules("none", 30)
    assert config.rules_for("c") == sections_days.DayRules("none", 3)
    assert config.day_of("a.20260101") == day_streams.Day("a", 20454)
    assert config.day_of("b.20260101") is None


def test_days_that_nobody_asked_for_cost_nothing() -> None:
    """By default no source is divided."""
    assert not sections_days.DaysSettings().is_used
    assert sections_days.DaysSettings(partition="day").is_used
    assert sections_days.DaysSettings(sources={"a": sections_days.SourceDaysSettings(partition="day")}).is_used


@given(st.lists(st.tuples(sources, numbers), max_size=30))
def test_days_are_counted_together_and_what_is_gone_gives_its_place(some: list[tuple[str, int]]) -> None:
    """As many labels as sources, however many days; what came through a stream that is gone stays in the sum."""
    counts = counters.Counts()
    for source, number in some:
        counts.add_reported(day_streams.Day(source, number).stream, (1, 2, 3, 4))
    assert counts.streams.keys() == {source for source, _ in some}
    before = counts.history_sums()
    kept = [day_streams.Day(source, number).stream for source, number in some[: len(some) // 2]]
    counts.merge_gone_streams(kept)
    assert counts.streams.keys() - {counters.OTHER} == {source for source, _ in some[: len(some) // 2]}
    assert counts.history_sums() == before


def test_trimming_of_a_source_holds_for_its_days() -> None:
    """Unless a day has limits of its own."""
    own = {
        "rig": settings.StreamTrimSettings(max_entries=70),
        "rig.20260102": settings.StreamTrimSettings(max_entries=20),
    }
    trim = settings.TrimSettings(max_entries=10, streams=own)
    found = {name: trim.of(name).max_entries for name in ("rig", "rig.20260101", "rig.20260102", "rig.x", "other")}
    assert found == {"rig": 70, "rig.20260101": 70, "rig.20260102": 20, "rig.x": 10, "other": 10}


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"partition": "week"}, "days.partition"),
        ({"keep_days": -1}, "days.keep_days"),
        ({"sources": {"rig": {"partition": "hour"}}}, 'days.sources."rig".partition'),
        ({"sources": {"rig": {"keep_days": -1}}}, 'days.sources."rig".keep_days'),
        ({"sources": {"r g": {"partition": "day"}}}, "Stream name 'r g'"),
        ({"sources": {"x" * 120: {"partition": "day"}}}, "119"),
        ({"partition": "day", "sources": {"rig.20260101": {"partition": "none"}}}, "a day of 'rig'"),
    ],
)
def test_settings_that_can_not_be(values: dict[str, Any], where: str) -> None:
    """Each mistake is named, by its place."""
    with pytest.raises(errors.RtaError, match=where):
        settings.load(None, {}, {f"days.{name}": value for name, value in values.items()})


def test_a_day_lives_longer_than_its_sessions() -> None:
    """Who reads a session that closed a moment ago finds its stream."""
    with pytest.raises(errors.BadConfiguration, match=r"days.keep_days.*session\.closed_ttl_s"):
        settings.load(None, {}, {"days.keep_days": 1, "session.closed_ttl_s": 86_401})
    assert settings.load(None, {}, {"days.keep_days": 0, "session.closed_ttl_s": 86_401}).days.keep_days == 0
