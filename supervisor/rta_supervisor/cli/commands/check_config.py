"""`rta-supervisor check-config`: what the supervisor would run with, and why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from rta_supervisor.cli import options, output
from rta_supervisor.settings import redaction, settings, sources
from rta_wire import errors


class SettingLine(msgspec.Struct, frozen=True):
    """One setting."""

    name: str
    value: Any
    origin: str


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    where: str
    reason: str


@click.command("check-config")
@options.as_json
@options.config
@options.redis_url
def command(as_json: bool, config: Path | None, redis_url: str | None) -> None:
    """The settings in effect, and where each one came from.

    Secrets are not shown. Ends with 78 where something is wrong, and names all of it.

    \b
    Examples:  rta-supervisor check-config --config /etc/rta-supervisor/supervisor.toml
               rta-supervisor check-config --json | jq '.settings[] | select(.origin != "default")'
    """
    try:
        loaded = settings.load_traced(config, overrides={"redis.url": redis_url})
    except errors.BadConfiguration as error:
        _show_problems(error, as_json=as_json)
        raise click.exceptions.Exit(error.exit_code) from error
    lines = list(effective(loaded))
    if as_json:
        output.print_json({"valid": True, "settings": lines})
        return
    table = output.table("setting", "value", "from")
    for line in lines:
        table.add_row(line.name, output.escape(_text(line.value)), output.escape(line.origin))
    output.console().print(table)


def effective(loaded: settings.TracedSettings) -> Iterator[SettingLine]:
    """Every setting."""
    for section, values in msgspec.to_builtins(loaded.settings).items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            path = (section, name) if name else (section,)
            yield SettingLine(sources.dotted(path), redaction.redacted(path[-1], value), loaded.sources.origin(path))


def _show_problems(error: errors.BadConfiguration, *, as_json: bool) -> None:
    facts = error.facts
    problems = [Problem(*one) for one in facts.get("problems", [(facts["where"], facts["reason"])])]
    if as_json:
        output.print_json({"valid": False, "problems": problems})
        return
    for problem in problems:
        click.echo(f"rta-supervisor: {output.escape(problem.where)}: {output.escape(problem.reason)}", err=True)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode() if not isinstance(value, str) else value or '""'
