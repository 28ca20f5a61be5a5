"""Streams per day: which source and which day a stream is of, told by its name alone.

A *source* is what a client asks for. Where it is divided by days its sessions go to streams `<source>.<YYYYMMDD>`, UTC.
"""

import datetime
import re
from typing import Final

import msgspec

from rta_wire import errors, keys, limits

DAY_S: Final = 24 * 3600
DAY_MS: Final = DAY_S * 1000
SUFFIX_CHARS: Final = len(".YYYYMMDD")
SOURCE_MAX_CHARS: Final = limits.STREAM_NAME_MAX_CHARS - SUFFIX_CHARS

_FIRST: Final = datetime.date(1970, 1, 1)
_NAME: Final = re.compile(r"(.+)\.([0-9]{4})([0-9]{2})([0-9]{2})", re.DOTALL)


class Day(msgspec.Struct, frozen=True, order=True):
    """One day of one source."""

    source: str
    number: int
    """Days since 1970."""

    @property
    def date(self) -> datetime.date:
        return _FIRST + datetime.timedelta(days=self.number)

    @property
    def stream(self) -> str:
        return f"{self.source}.{self.date:%Y%m%d}"

    @property
    def start_ms(self) -> int:
        return self.number * DAY_MS


def number_at(at_ms: int) -> int:
    """The day that a time is in, UTC."""
    return at_ms // DAY_MS


def parse(stream: str) -> Day | None:
    """The day that a stream is called after, None for a name of another form."""
    if not (found := _NAME.fullmatch(stream)):
        return None
    source, *date = found.groups()
    try:
        number = (datetime.date(*map(int, date)) - _FIRST).days
    except ValueError:
        return None
    return Day(source, number) if number >= 0 else None


def source_of(stream: str) -> str:
    """The source of a stream. One that is not called after a day is its own."""
    return stream if (day := parse(stream)) is None else day.source


def is_stream_of(stream: str, source: str) -> bool:
    """Whether who asks for a source, or for the stream itself, means this stream."""
    return source in (stream, source_of(stream))


def check_source(source: str) -> str:
    """A name to which a day can be added."""
    keys.check_stream_name(source)
    if len(source) > SOURCE_MAX_CHARS:
        reason = f"with a stream per day it has at most {SOURCE_MAX_CHARS} characters: each day adds {SUFFIX_CHARS}"
        raise errors.BadName(what="Stream name", value=source, reason=reason)
    return source
