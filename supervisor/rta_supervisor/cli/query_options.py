"""What to look for in the catalogue, as people say it: options of `sessions list --all` and of `sessions export`."""

import functools
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from rta_supervisor.catalogue.model import Query
from rta_wire import errors, limits
from rta_wire.session import State

_AGO: Final = re.compile(r"(\d+)(s|min|h|d)")
_AGO_S: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_MOMENT: Final = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)?"
)
SECOND_NS: Final = 10**9


def parse_time_ns(text: str) -> int:
    """`2026-11-02T14:00:00Z` with up to nine digits of a second, `2h` for two hours ago, or nanoseconds as they are."""
    if re.fullmatch(r"-?\d+", text):
        found_ns = int(text)
    elif ago := _AGO.fullmatch(text):
        found_ns = time.time_ns() - int(ago[1]) * _AGO_S[ago[2]] * SECOND_NS
    elif found := _MOMENT.fullmatch(text):
        found_ns = _whole_ns(text, found)
    else:
        raise _no_moment(text)
    if not limits.TIME_NS_MIN <= found_ns <= limits.TIME_NS_MAX:
        raise _no_moment(text)
    return found_ns


def _whole_ns(text: str, found: re.Match[str]) -> int:
    try:
        at = datetime.fromisoformat(found["whole"] + (found["zone"] or ""))
    except ValueError as error:
        raise _no_moment(text) from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    # A float has not enough digits for nanoseconds.
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * SECOND_NS + int((found["part"] or "").ljust(9, "0"))


def _no_moment(text: str) -> errors.Usage:
    return errors.Usage(reason=f"{text!r} is no time. Say 2026-11-02T14:00:00Z, 2h for two hours ago, or nanoseconds.")


def _moment(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    return None if text is None else parse_time_ns(text)


def _details(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise errors.Usage(reason=f"{text!r} is no detail. Say its name and its value: --detail Rig=4.")
    return tuple((name, value) for name, _, value in pairs)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `query`, what the options ask for."""

    @click.option("--text", default="", metavar="WORDS", help="Parts of words of identity, identifier or details.")
    @click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([state.value for state in State if state is not State.UNKNOWN]),
        help="May be said several times.",
    )
    @click.option("--stream", default="", metavar="NAME", help="Those of one stream, or of all days of a source.")
    @click.option("--detail", "details", multiple=True, metavar="NAME=VALUE", callback=_details, help="E.g. Rig=4.")
    @click.option("--since", "since_ns", metavar="TIME", callback=_moment, help="With data at or after that; 2h: ago.")
    @click.option("--until", "until_ns", metavar="TIME", callback=_moment, help="With data at or before that.")
    @functools.wraps(command)
    def wrapped(*words: Any, states: tuple[str, ...], **named: Any) -> Any:
        asked = {name: named.pop(name) for name in ("text", "stream", "details", "since_ns", "until_ns")}
        return command(*words, query=Query(states=tuple(map(State, states)), **asked), **named)

    return wrapped
