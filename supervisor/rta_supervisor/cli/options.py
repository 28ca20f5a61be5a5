"""Options that several commands share: which Redis, which settings, tables or JSON, how long to wait; confirmation."""

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from rta_supervisor.settings import settings
from rta_wire import credentials, errors

COUNT_MAX: Final = 10**9
"""The highest number that options for counts take."""

REPLY_TIMEOUT_MAX_S: Final = 86_400.0
REPLY_TIMEOUT_S: Final = 60.0
"""The same as control.client.TIMEOUT_S, which is not imported: that would cost every command 0.1 s at its start."""


class FiniteRange(click.FloatRange):
    """A range of numbers that NaN is not in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


config = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file; see conf/supervisor.toml.",
)


def _refuse_password(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """Refuses a URL with a password: everybody on a host can read the command line of a process."""
    return url if url is None else credentials.check_no_password(url)


redis_url = click.option(
    "--redis-url",
    metavar="URL",
    callback=_refuse_password,
    help="Redis or Valkey to use: redis://127.0.0.1:6379/0, unix:///run/redis.sock, "
    "redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
yes = click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
timeout = click.option(
    "--timeout-s",
    type=FiniteRange(0.1, REPLY_TIMEOUT_MAX_S),
    default=REPLY_TIMEOUT_S,
    show_default=True,
    help="How long to wait for the supervisor's reply.",
)


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `config`: the settings of file, environment and options, as `rta-supervisor run` has them."""

    @config
    @redis_url
    @functools.wraps(command)
    def wrapped(*arguments: Any, config_path: Path | None, redis_url: str | None, **options: Any) -> Any:
        loaded = settings.load(config_path, overrides={"redis.url": redis_url})
        return command(*arguments, config=loaded, **options)

    return wrapped


class SessionNames(NamedTuple):
    """The sessions that a command is about. An argument is always an identity, never an external id."""

    identities: tuple[str, ...]
    external_ids: tuple[str, ...]
    principal: str
    """Whose external ids they are; empty: of any principal."""


def external_ids(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `external_ids` and `principal`: see `SessionNames`."""
    command = click.option(
        "--principal",
        default="",
        metavar="NAME",
        help="Whose external ids they are, where several principals use them.",
    )(command)
    return click.option(
        "--external-id",
        "external_ids",
        multiple=True,
        metavar="ID",
        help="The session with this external id, as its writer opened it; may be repeated where several are.",
    )(command)


def named_session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `names`: one session, by the argument IDENTITY or by `--external-id`; none where the command has
    an option `stream` that names what it is about."""

    @click.argument("identity", required=False)
    @external_ids
    @functools.wraps(command)
    def wrapped(
        *arguments: Any, identity: str | None, external_ids: tuple[str, ...], principal: str, **rest: Any
    ) -> Any:
        names = SessionNames(() if identity is None else (identity,), external_ids, principal)
        streams = ", or a stream: --stream NAME" if "stream" in rest else ""
        if len(names.identities) + len(names.external_ids) + bool(rest.get("stream")) != 1:
            raise errors.Usage(reason=f"Name one session: IDENTITY or --external-id ID{streams}.")
        return command(*arguments, names=check_names(names), **rest)

    return wrapped


def named_sessions(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `names`: some sessions, by arguments IDENTITY or by `--external-id`."""

    @click.argument("identities", metavar="[IDENTITY]...", nargs=-1)
    @external_ids
    @functools.wraps(command)
    def wrapped(
        *arguments: Any, identities: tuple[str, ...], external_ids: tuple[str, ...], principal: str, **rest: Any
    ) -> Any:
        if not identities and not external_ids:
            raise errors.Usage(reason="Name a session: IDENTITY or --external-id ID.")
        return command(*arguments, names=check_names(SessionNames(identities, external_ids, principal)), **rest)

    return wrapped


def check_names(names: SessionNames) -> SessionNames:
    """The names themselves, if the options make sense together."""
    if names.principal and not names.external_ids:
        raise errors.Usage(reason="--principal goes with --external-id: an identity names one session by itself.")
    return names


def confirm(question: str, *, yes: bool) -> None:
    """Asks on the terminal before something that can't be undone. Without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise errors.Usage(reason=f"{question} Nobody can be asked here: say --yes.")
    click.confirm(question, abort=True, err=True)
