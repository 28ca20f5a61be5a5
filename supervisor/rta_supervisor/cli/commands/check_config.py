"""`rta-supervisor check-config`: the settings that `run` would use, and where each one comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from rta_supervisor.cli import options, output
from rta_supervisor.settings import redaction, settings, sources
from rta_wire import errors


class SettingLine(msgspec.Struct, frozen=True):
    """One setting in what `check-config --json` prints."""

    name: str
    value: Any
    origin: str


class SettingProblem(msgspec.Struct, frozen=True):
    """One mistake or doubtful value in the settings, as `check-config --json` prints it."""

    where: str
    reason: str


@click.command("check-config")
@options.as_json
@options.config
@options.redis_url
def command(as_json: bool, config_path: Path | None, redis_url: str | None) -> None:
    """Show the settings in effect, and where each one comes from.

    Secrets are not shown. Ends with 78 where settings are wrong, and names every mistake. Warns about settings that can
    work and are probably not meant.

    \b
    Examples:  rta-supervisor check-config --config /etc/rta-supervisor/supervisor.toml
               rta-supervisor check-config --json | jq '.settings[] | select(.origin != "default")'
    """
    try:
        traced = settings.load_traced(config_path, overrides={"redis.url": redis_url})
    except errors.BadConfiguration as error:
        _print_problems(error, as_json=as_json)
        raise click.exceptions.Exit(error.exit_code) from error
    lines = list(setting_lines(traced))
    warnings = [SettingProblem(traced.sources.label(where), reason) for where, reason in traced.settings.warnings()]
    if as_json:
        output.print_json({"valid": True, "settings": lines, "warnings": warnings})
        return
    table = output.table("setting", "value", "from")
    for line in lines:
        table.add_row(line.name, output.escape(_format_value(line.value)), output.escape(line.origin))
    output.console().print(table)
    for warning in warnings:
        sentence = f"{output.escape(warning.where)}: {output.escape(warning.reason)}"
        click.echo(f"rta-supervisor: warning: {sentence}", err=True)


def setting_lines(traced: settings.TracedSettings) -> Iterator[SettingLine]:
    """Every setting with its value, secrets hidden, and the file, variable or option that it comes from."""
    for section, values in msgspec.to_builtins(traced.settings).items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            path = (section, name) if name else (section,)
            yield SettingLine(sources.dotted(path), redaction.redacted(path[-1], value), traced.sources.origin(path))


def _print_problems(error: errors.BadConfiguration, *, as_json: bool) -> None:
    facts = error.facts
    problems = [SettingProblem(*problem) for problem in facts.get("problems", [(facts["where"], facts["reason"])])]
    if as_json:
        output.print_json({"valid": False, "problems": problems})
        return
    for problem in problems:
        click.echo(f"rta-supervisor: {output.escape(problem.where)}: {output.escape(problem.reason)}", err=True)


def _format_value(value: Any) -> str:
    return msgspec.json.encode(value).decode() if not isinstance(value, str) else value or '""'
