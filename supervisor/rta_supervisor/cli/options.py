"""Options that commands share: which Redis, which settings, tables or JSON."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rta_supervisor.settings import settings
from rta_wire import credentials, errors

config = click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="TOML file; see conf/supervisor.toml."
)


def _without_password(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """Everybody on a host can read the command line of a process."""
    return url if url is None else credentials.check_no_password(url)


redis_url = click.option(
    "--redis-url",
    metavar="URL",
    callback=_without_password,
    help="Redis or Valkey to use: redis://127.0.0.1:6379/0, unix:///run/redis.sock, "
    "redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
yes = click.option("--yes", "-y", is_flag=True, help="Don't ask.")


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `loaded`, the settings of file, environment and options, as `run` would have them."""

    @config
    @redis_url
    @functools.wraps(command)
    def wrapped(*words: Any, config: Path | None, redis_url: str | None, **named: Any) -> Any:
        return command(*words, loaded=settings.load(config, overrides={"redis.url": redis_url}), **named)

    return wrapped


def confirm(question: str, *, yes: bool) -> None:
    """Ask a person before something that can't be undone. Without one it has to be said beforehand."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise errors.Usage(reason=f"{question} Nobody can be asked here: say --yes.")
    click.confirm(question, abort=True, err=True)
