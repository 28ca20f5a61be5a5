"""Options that choose sessions: times for every command, in the grammar of `rta_wire.time_grammar`, and what
`sessions list --all` and `sessions export` search the catalogue by.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, Final

import click

from rta_supervisor.catalogue.model import Query
from rta_wire import errors, time_grammar
from rta_wire.session import State

QUOTED_MAX_CHARS: Final = 100


def _to_time_ns(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return time_grammar.parse_ns(text, time.time_ns())
    except ValueError as error:
        quoted = text[:QUOTED_MAX_CHARS]
        raise errors.Usage(reason=f"{option.opts[0]} {quoted!r} is no time. Write {time_grammar.GRAMMAR}.") from error


def time_option(flag: str, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a time: `--since` gives a command `since_ns`, None where the option is not used."""
    name = f"{flag.removeprefix('--')}_ns"
    return click.option(
        flag, name, metavar="TIME", callback=_to_time_ns, help=f"{meaning} TIME: {time_grammar.GRAMMAR}."
    )


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
