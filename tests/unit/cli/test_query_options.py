"""The grammar of times on the command line: the same for every option that takes a time."""

from datetime import UTC, datetime, timedelta, timezone

import click
import hypothesis
import pytest
from hypothesis import strategies

from rta_supervisor.cli import entry
from rta_wire import limits, time_grammar
from tests.support.commands import every_command, refused, run

NOW_NS = 1_794_000_000_123_456_789
SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
MAY_17_NS = 1_778_976_000 * SECOND_NS
"""2026-05-17, 00:00 UTC."""

SIX_NS = MAY_17_NS + 6 * 3600 * SECOND_NS
UNITS_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("0s", NOW_NS),
        ("90s", NOW_NS - 90 * SECOND_NS),
        ("5min", NOW_NS - 300 * SECOND_NS),
        ("5m", NOW_NS - 300 * SECOND_NS),
        ("2h", NOW_NS - 7200 * SECOND_NS),
        ("7d", NOW_NS - 7 * DAY_NS),
        ("300000d", limits.TIME_NS_MIN),
        ("1970-01-01", 0),
        ("2026-05-17", MAY_17_NS),
        ("20260517", MAY_17_NS),
        ("2026-W20-7", MAY_17_NS),
        ("2026-05-17T06", SIX_NS),
        ("2026-05-17T06:00", SIX_NS),
        ("2026-05-17 06:00", SIX_NS),
        ("2026-05-17T06:00Z", SIX_NS),
        ("20260517T060000Z", SIX_NS),
        ("2026-05-17T08:00+02:00", SIX_NS),
        ("2026-05-17T08:00:00+0200", SIX_NS),
        ("2026-05-17T04:30:00-01:30", SIX_NS),
        ("2026-05-17T06:00:00.5", SIX_NS + SECOND_NS // 2),
        ("2026-05-17T06:00:00,5Z", SIX_NS + SECOND_NS // 2),
        ("2026-05-17T08:00:00.123456789+02:00", SIX_NS + 123_456_789),
        ("2026-05-17T06:00:00.1234567899Z", SIX_NS + 123_456_789),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("0001-01-01", limits.TIME_NS_MIN),
        ("00010101", limits.TIME_NS_MIN),
        ("9999-12-31T23:59:59Z", limits.TIME_NS_MAX),
        ("1700000000123456789", 1_700_000_000_123_456_789),
        ("5", 5),
        ("-5", -5),
        ("20261399", 20_261_399),
    ],
)
def test_times_that_are_understood(text: str, time_ns: int) -> None:
    """Ages, dates and times of ISO 8601 with every nanosecond, and numbers; without a zone a time is UTC."""
    assert time_grammar.parse_ns(text, NOW_NS) == time_ns


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-05-17+02:00", "2026-05-17Z", "20260517+02",
     "5 min", "5minutes", "1.5h", "-5min", "5w", "min", "2026-13-01", "2026-05", "T06:00", "6:00",
     "2026-05-17T25:00", "99999999999999999999", "9" * 5000],
)  # fmt: skip
def test_times_that_are_refused(text: str) -> None:
    """Words, unknown units, dates that there are not, and numbers beyond 64 bits."""
    with pytest.raises(ValueError):  # noqa: PT011 - Python's own parsers raise it with texts of their own
        time_grammar.parse_ns(text, NOW_NS)


@hypothesis.given(number=strategies.integers(0, 100_000), unit=strategies.sampled_from(sorted(UNITS_S)))
def test_an_age_is_subtracted_from_now(number: int, unit: str) -> None:
    """An age read back from the nanoseconds has the same number of the same unit; `m` and `min` are equal."""
    age_ns = NOW_NS - time_grammar.parse_ns(f"{number}{unit}", NOW_NS)
    assert divmod(age_ns, UNITS_S[unit] * SECOND_NS) == (number, 0)
    assert time_grammar.parse_ns(f"{number}m", NOW_NS) == time_grammar.parse_ns(f"{number}min", NOW_NS)


@hypothesis.given(
    time_ns=strategies.integers(limits.TIME_NS_MIN, limits.TIME_NS_MAX),
    offset_min=strategies.integers(-14 * 60, 14 * 60),
    separator=strategies.sampled_from("T "),
)
def test_a_time_of_any_zone_comes_back_to_the_nanosecond(time_ns: int, offset_min: int, separator: str) -> None:
    """Written out in ISO 8601 with nine digits of the second and an offset, it is the same time again."""
    zone = timezone(timedelta(minutes=offset_min))
    second, fraction_ns = divmod(time_ns, SECOND_NS)
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).astimezone(zone)
    text = f"{moment.replace(tzinfo=None).isoformat(separator)}.{fraction_ns:09}"
    assert time_grammar.parse_ns(text + moment.isoformat()[19:], NOW_NS) == time_ns
    if not offset_min:
        assert time_grammar.parse_ns(f"{text}Z", NOW_NS) == time_grammar.parse_ns(text, NOW_NS) == time_ns


@hypothesis.given(strategies.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    """Any text is a time in the range of 64 bits, or a ValueError."""
    try:
        time_ns = time_grammar.parse_ns(text, NOW_NS)
    except ValueError:
        return
    assert limits.TIME_NS_MIN <= time_ns <= limits.TIME_NS_MAX


@pytest.mark.parametrize("command", [["archive"], ["sessions", "list", "--all"], ["sessions", "export"]])
def test_every_command_refuses_with_the_grammar(command: list[str]) -> None:
    """64, and one line with the option, the text and what could be written instead."""
    sentence = f"--since 'yesterday' is no time. Write {time_grammar.GRAMMAR}."
    refused(run("", *command, "--since", "yesterday"), 64, sentence)


def test_every_option_that_takes_a_time_has_the_grammar() -> None:
    """No command has a grammar of its own."""
    options = [
        option
        for command in every_command(entry.cli).values()
        for option in command.params
        if isinstance(option, click.Option) and option.metavar == "TIME"
    ]
    assert len(options) == 5
    assert all(time_grammar.GRAMMAR in (option.help or "") for option in options)
