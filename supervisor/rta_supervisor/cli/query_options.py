"""Options that choose sessions: the one grammar of times for every command, and what `sessions list --all` and
`sessions export` search the catalogue by.
"""

import contextlib
import functools
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from rta_supervisor.catalogue.model import Query
from rta_wire import errors, limits
from rta_wire.session import State

TIME_GRAMMAR: Final = (
    "a date or a time (2026-11-02, 2026-11-02T14:00:00Z; UTC without a zone), how long ago (90s, 5min or 5m, 2h, 7d) "
    "or nanoseconds since 1970"
)
QUOTED_MAX_CHARS: Final = 100
_AGE: Final = re.compile(r"(\d+)(s|min|m|h|d)")
_UNIT_S: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_NUMBER: Final = re.compile(r"-?\d+")
_DATE_DIGITS: Final = len("20261102")
_FRACTION: Final = re.compile(r"[.,](?P<digits>\d+)(?=$|Z$|[+-][\d:]+$)")
"""The fraction of a second in an ISO 8601 time, before the zone if there is one."""
_ZONED_DATE: Final = re.compile(r"\d{4}-?\d\d-?\d\d(Z|[+-]\d\d(:?\d\d)?)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_NS: Final = 10**9


def parse_time_ns(text: str, now_ns: int) -> int:
    """Nanoseconds since 1970 of a time as people write it, see `TIME_GRAMMAR`. ValueError: it is none.

    Eight digits that make a date (20261102) are that date and not the first 0.1 s of 1970.
    """
    if age := _AGE.fullmatch(text):
        return _clamp(now_ns - int(age[1]) * _UNIT_S[age[2]] * _SECOND_NS)
    if not _NUMBER.fullmatch(text):
        return _clamp(_calendar_ns(text))
    if len(text) == _DATE_DIGITS:
        with contextlib.suppress(ValueError):
            return _clamp(_calendar_ns(text))
    if _clamp(int(text)) != int(text):
        raise ValueError(text)
    return int(text)


def _clamp(time_ns: int) -> int:
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


def _to_time_ns(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_time_ns(text, time.time_ns())
    except ValueError as error:
        quoted = text[:QUOTED_MAX_CHARS]
        raise errors.Usage(reason=f"{option.opts[0]} {quoted!r} is no time. Write {TIME_GRAMMAR}.") from error


def time_option(flag: str, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a time: `--since` gives a command `since_ns`, None where the option is not used."""
    name = f"{flag.removeprefix('--')}_ns"
    return click.option(flag, name, metavar="TIME", callback=_to_time_ns, help=f"{meaning} TIME: {TIME_GRAMMAR}.")


def _parse_details(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    details = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            quoted = text[:QUOTED_MAX_CHARS]
            raise errors.Usage(reason=f"{quoted!r} is no detail. Say its name and its value: --detail Rig=4.")
        details.append((name, value))
    return tuple(details)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `query`: the search of the catalogue that the options describe."""

    @click.option(
        "--text",
        default="",
        metavar="WORDS",
        help="Sessions with each of these words, or words that contain them, in identity, identifier or details.",
    )
    @click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([state.value for state in State if state is not State.UNKNOWN]),
        help="Sessions in this state; may be repeated.",
    )
    @click.option("--stream", default="", metavar="NAME", help="Sessions of one stream, or of all days of a source.")
    @click.option("--external-id", default="", metavar="ID", help="Sessions with this external id, of any principal.")
    @click.option(
        "--detail",
        "details",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_details,
        help="Sessions with this detail, such as Rig=4; may be repeated.",
    )
    @time_option("--since", "Sessions with data at or after")
    @time_option("--until", "Sessions with data at or before")
    @functools.wraps(command)
    def wrapped(*arguments: Any, states: tuple[str, ...], **options: Any) -> Any:
        criteria = {
            name: options.pop(name) for name in ("text", "stream", "external_id", "details", "since_ns", "until_ns")
        }
        return command(*arguments, query=Query(states=tuple(map(State, states)), **criteria), **options)

    return wrapped
