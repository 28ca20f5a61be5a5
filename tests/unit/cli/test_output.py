"""How figures and text look to people."""

import unicodedata

import hypothesis
import pytest
from hypothesis import strategies

from rta_supervisor.cli import output


@hypothesis.given(strategies.text())
def test_no_text_moves_the_cursor(text: str) -> None:
    """Whatever a name holds, what is shown is one line of visible characters, and plain names stay as they are."""
    safe = output.escape(text)
    assert all(unicodedata.category(one)[0] not in "CZ" or one == " " for one in safe)
    if text.isprintable():
        assert safe == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**20, "5 MiB"), (300 * 2**30, "300 GiB"), (None, "-")],
)
def test_sizes(number: int | None, text: str) -> None:
    """Bytes in the unit that a person would choose."""
    assert output.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.44, "0.4 s"), (59.6, "60 s"), (180, "3 min"), (7300, "2 h"), (7 * 86400, "7 d")],
)
def test_durations(seconds: float, text: str) -> None:
    """Rounded to one unit, never negative."""
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("at_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_700_000_000_000_000_001, "2023-11-14T22:13:20.000000001Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_moments_keep_every_nanosecond(at_ns: int, text: str) -> None:
    """Before 1970 too."""
    assert output.format_time_ns(at_ns) == text
