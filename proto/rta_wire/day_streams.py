"""Streams per day: the source and the day of a stream, as its name says them.

A *source* is what a client asks for. Where it is divided by days its sessions go to streams `<source>.<YYYYMMDD>`, UTC.
"""

import datetime
import re
from typing import Final

import msgspec

from rta_wire import errors, limits, name_checks

DAY_S: Final = 24 * 3600
DAY_MS: Final = DAY_S * 1000
SUFFIX_CHARS: Final = len(".YYYYMMDD")
SOURCE_MAX_CHARS: Final = limits.STREAM_NAME_MAX_CHARS - SUFFIX_CHARS

_EPOCH: Final = datetime.date(1970, 1, 1)
_NAME: Final = re.compile(r"(.+)\.([0-9]{4})([0-9]{2})([0-9]{2})", re.DOTALL)


class Day(msgspec.Struct, frozen=True, order=True):
    """One day of one source."""

    source: str
    number: int
    """Days since 1970-01-01."""

    @property
    def date(self) -> datetime.date:
        return _EPOCH + datetime.timedelta(days=self.number)

    @property
    def stream(self) -> str:
        """The name of the stream of this day."""
        return f"{self.source}.{self.date:%Y%m%d}"

    @property
    def start_ms(self) -> int:
        return self.number * DAY_MS


def number_at(at_ms: int) -> int:
    """The number of the day that a time is in, UTC."""
    return at_ms // DAY_MS


def parse(stream: str) -> Day | None:
    """The day in the name of a stream, None for a name of another form."""
    if not (match := _NAME.fullmatch(stream)):
        return None
    source, *date = match.groups()
    try:
        number = (datetime.date(*map(int, date)) - _EPOCH).days
    except ValueError:
        return None
    return Day(source, number) if number >= 0 else None


def source_of(stream: str) -> str:
    """The source of a stream. A stream without a day in its name is its own source."""
    return stream if (day := parse(stream)) is None else day.source


def is_stream_of(stream: str, source: str) -> bool:
    """Whether a stream belongs to a source; a stream is also a source of itself."""
    return source in (stream, source_of(stream))


def check_source(source: str) -> str:
    """The source itself, if a stream may have its name with a day added."""
    name_checks.check_stream_name(source)
    if len(source) > SOURCE_MAX_CHARS:
        reason = f"with a stream per day it has at most {SOURCE_MAX_CHARS} characters: each day adds {SUFFIX_CHARS}"
        raise errors.BadName(what="Stream name", value=source, reason=reason)
    return source
