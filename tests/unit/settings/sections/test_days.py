"""Settings of streams per day: what holds for a source, and which values are refused."""

from typing import Any

import pytest

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_wire import day_streams, errors


def test_rules_of_a_source() -> None:
    """A source has the rules that are set for it, else those that are set for all."""
    sources = {
        "a": sections_days.SourceDaysSettings(partition="day"),
        "b": sections_days.SourceDaysSettings(keep_days=30),
    }
    config = sections_days.DaysSettings(keep_days=3, sources=sources)
    assert config.rules_for("a") == sections_days.DayRules("day", 3)
    assert config.rules_for("b") == sections_days.DayRules("none", 30)
    assert config.rules_for("c") == sections_days.DayRules("none", 3)
    assert config.day_of("a.20260101") == day_streams.Day("a", 20454)
    assert config.day_of("b.20260101") is None


def test_streams_per_day_are_off_by_default() -> None:
    """By default no source has a stream per day; one source is enough to use them."""
    assert not sections_days.DaysSettings().is_used
    assert sections_days.DaysSettings(partition="day").is_used
    assert sections_days.DaysSettings(sources={"a": sections_days.SourceDaysSettings(partition="day")}).is_used


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"partition": "week"}, "days.partition"),
        ({"keep_days": -1}, "days.keep_days"),
        ({"sources": {"rig": {"partition": "hour"}}}, "days.sources.rig.partition"),
        ({"sources": {"rig": {"keep_days": -1}}}, "days.sources.rig.keep_days"),
        ({"sources": {"r g": {"partition": "day"}}}, "Stream name 'r g'"),
        ({"sources": {"x" * 120: {"partition": "day"}}}, "119"),
        ({"partition": "day", "sources": {"rig.20260101": {"partition": "none"}}}, "a day of 'rig'"),
    ],
)
def test_settings_that_can_not_be(values: dict[str, Any], where: str) -> None:
    """Each wrong value is refused by the dotted name of its setting."""
    with pytest.raises(errors.BadConfiguration, match=where):
        settings.load(None, {}, {f"days.{name}": value for name, value in values.items()})


def test_a_day_lives_longer_than_its_sessions() -> None:
    """Days are kept at least as long as closed sessions, so that the stream of a session is there."""
    with pytest.raises(errors.BadConfiguration, match=r"days.keep_days.*session\.closed_ttl_s"):
        settings.load(None, {}, {"days.keep_days": 1, "session.closed_ttl_s": 86_401})
    assert settings.load(None, {}, {"days.keep_days": 0, "session.closed_ttl_s": 86_401}).days.keep_days == 0
