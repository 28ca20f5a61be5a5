"""How people write times: the one grammar for options of commands and arguments of calls."""

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rta_wire import limits

GRAMMAR: Final = (
    "a date or a time (2026-11-02, 2026-11-02T14:00:00Z; UTC without a zone), how long ago (90s, 5min or 5m, 2h, 7d) "
    "or nanoseconds since 1970"
)
_AGE: Final = re.compile(r"(\d+)(s|min|m|h|d)")
_UNIT_S: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_NUMBER: Final = re.compile(r"-?\d+")
_DATE_DIGITS: Final = len("20261102")
_FRACTION: Final = re.compile(r"[.,](?P<digits>\d+)(?=$|Z$|[+-][\d:]+$)")
"""The fraction of a second in an ISO 8601 time, before the zone if there is one."""
_ZONED_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d(Z|[+-]\d\d(:?\d\d)?)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_NS: Final = 10**9


def parse_ns(text: str, now_ns: int) -> int:
    """Nanoseconds since 1970 of a time as people write it, see `GRAMMAR`. ValueError: it is none.

    Eight digits that make a date (20261102) are that date and not the first 0.1 s of 1970.
    """
    if age := _AGE.fullmatch(text):
        return clamp_ns(now_ns - int(age[1]) * _UNIT_S[age[2]] * _SECOND_NS)
    if not _NUMBER.fullmatch(text):
        return clamp_ns(_calendar_ns(text))
    if len(text) == _DATE_DIGITS:
        with contextlib.suppress(ValueError):
            return clamp_ns(_calendar_ns(text))
    if clamp_ns(int(text)) != int(text):
        raise ValueError(text)
    return int(text)


def clamp_ns(time_ns: int) -> int:
    """The nearest time that fits into 64 bits: dates and ages beyond are taken, as no data are there."""
    return min(max(time_ns, limits.TIME_NS_MIN), limits.TIME_NS_MAX)


def _calendar_ns(text: str) -> int:
    """Nanoseconds since 1970 of a date or a time in ISO 8601, as far as Python knows that."""
    if _ZONED_DATE.fullmatch(text):
        # Python reads the zone of a date as a time of that day.
        raise ValueError(text)
    # Python's parser stops at microseconds, and a float has not enough digits: the fraction is read by itself.
    fraction = _FRACTION.search(text)
    fraction_ns = 0 if fraction is None else int(fraction["digits"][:9].ljust(9, "0"))
    moment = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 + fraction_ns
