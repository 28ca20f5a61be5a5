"""How commands print text, sizes, durations and times."""

import unicodedata

import hypothesis
import pytest
from hypothesis import strategies

from rta_supervisor.cli import output
from rta_wire import quoting


@hypothesis.given(strategies.text())
def test_escaped_text_is_one_visible_line(text: str) -> None:
    """Any text becomes one line of visible characters, and text of visible characters stays as it is."""
    safe = output.escape(text)
    assert all(unicodedata.category(char)[0] not in "CZ" or char == " " for char in safe)
    if text.isprintable():
        assert safe == text


def test_long_text_is_cut_in_tables_and_whole_in_a_document() -> None:
    """A cell of a table is bounded however long a text is; a document that was asked for is printed whole."""
    cell = output.escape("x" * 200_000)
    assert len(cell) == quoting.TEXT_MAX_CHARS
    assert cell.endswith("... (200000 characters)")
    assert "x" * 5000 in output.pretty_json(b'{"a": "' + b"x" * 5000 + b'"}')


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**20, "5 MiB"), (300 * 2**30, "300 GiB"), (None, "-")],
)
def test_sizes(number: int | None, text: str) -> None:
    """Bytes in the largest unit of which there is at least one."""
    assert output.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.44, "0.4 s"), (59.6, "60 s"), (180, "3 min"), (7300, "2 h"), (7 * 86400, "7 d")],
)
def test_durations(seconds: float, text: str) -> None:
    """A duration in one unit; a negative one is 0."""
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
def test_times_have_every_nanosecond(at_ns: int, text: str) -> None:
    """A time in nanoseconds is printed with nine digits of the second, also before 1970."""
    assert output.format_time_ns(at_ns) == text
