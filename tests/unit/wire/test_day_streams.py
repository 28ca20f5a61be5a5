"""Streams per day: names of days, and the room that a source leaves for them."""

import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import day_streams, errors, name_checks

sources = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,118}", fullmatch=True)
numbers = st.integers(0, (datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days)


@example("rig.20260101", 20_000)
@example("rig.", 0)
@given(sources, numbers)
def test_a_name_says_source_and_day(source: str, number: int) -> None:
    """Whatever the source is called, be it after a day itself: its day streams are valid names and lead back to it."""
    day = day_streams.Day(day_streams.check_source(source), number)
    assert name_checks.check_stream_name(day.stream) == day.stream
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
