"""How commands print: tables for people, JSON for scripts, colours on a terminal only.

Text from outside, such as a session's name, is printed with its control characters escaped and cut where it is long: it
can neither control the terminal nor fill it.
"""

import contextlib
import difflib
import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rta_wire import quoting

UNLIMITED_WIDTH: Final = 10_000
"""Columns of a pipe or a file, in which no line is cut or wrapped."""

STATE_STYLES: Final = {
    "open": "green",
    "waiting": "yellow",
    "closed": "dim",
    "truncated": "magenta",
    "failed": "red",
    "abandoned": "magenta",
}
EMPTY_CELL: Final = "-"
_DURATION_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))


class OutputFailed(Exception):
    """Standard output can't be written. While a command talks to Redis, an OSError is one of its connection."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(str(problem))
        self.problem = problem


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """A block that writes to standard output, within work on Redis. Raises `OutputFailed`."""
    try:
        yield
    except OSError as error:
        raise OutputFailed(error) from error


class PipeConsole(Console):
    """A console that leaves a closed pipe to the end of the program: rich would end it with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return PipeConsole(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else UNLIMITED_WIDTH
    )


def print_json(value: Any) -> None:
    """Prints a value as one indented JSON document on standard output."""
    utf8_stdout().write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def utf8_stdout() -> TextIO:
    """Standard output for what programs read, JSON and CSV: as UTF-8, also where the terminal has another encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def pretty_json(raw: bytes) -> str:
    """JSON from outside, whole, indented and with control characters escaped."""
    return "\n".join(map(quoting.printable, msgspec.json.format(raw, indent=2).decode().splitlines()))


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """An empty table. `right`: the columns that are aligned to the right and not wrapped, those of numbers."""
    rich_table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    for name in columns:
        is_right = name in right
        justify: Literal["right", "left"] = "right" if is_right else "left"
        rich_table.add_column(name, justify=justify, no_wrap=is_right, overflow="fold")
    return rich_table


def key_value_table(pairs: Sequence[tuple[str, Text | str]]) -> Table:
    """A table of names and values without a header."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value)
    return grid


def escape(text: str) -> str:
    """Text from outside, cut where it is long, with every character escaped that ends a line or controls a terminal."""
    return quoting.printable(quoting.cut(text))


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which known one is the most similar. Empty where none is."""
    similar = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; the nearest is {similar[0]!r}" if similar else ""


def state(name: str) -> Text:
    return Text(name, style=STATE_STYLES.get(name, ""))


def count(number: int | None) -> str:
    return EMPTY_CELL if number is None else f"{number:,}"


def size(number: int | None) -> str:
    """A number of bytes with three digits and a unit."""
    if number is None:
        return EMPTY_CELL
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"


def ago(then_ms: int | None, at_ms: int) -> str:
    """The time from `then_ms` to `at_ms`, as `duration` prints it."""
    return EMPTY_CELL if then_ms is None else duration((at_ms - then_ms) / 1000)


def duration(seconds: float) -> str:
    """Seconds in the largest unit of which there are two at least; 0 for negative ones."""
    seconds = max(seconds, 0.0)
    for unit, unit_s in _DURATION_UNITS:
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def format_time_ms(at_ms: int | None) -> str:
    """A time in UTC, ISO 8601 with whole seconds."""
    return EMPTY_CELL if at_ms is None else f"{_utc(at_ms // 1000)}Z"


def format_time_ns(at_ns: int | None) -> str:
    """A time in UTC, ISO 8601 with nanoseconds."""
    return EMPTY_CELL if at_ns is None else f"{_utc(at_ns // 10**9)}.{at_ns % 10**9:09}Z"


def _utc(at_s: int) -> str:
    try:
        return datetime.fromtimestamp(at_s, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_s} s"
