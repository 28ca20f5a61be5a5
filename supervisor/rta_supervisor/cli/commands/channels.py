"""`rta-supervisor channels`: the configurations that were published, one of them, and the check of a file."""

from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import ConfigInfo
from rta_supervisor.channels import sync
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.cli import catalogue_access, list_group, options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors, name_checks
from rta_wire.channels import config_json, files, model, viewer_warnings

LISTED: Final = 50
FOUND_MAX: Final = 10_000
"""Configurations among which the beginning of an identifier is looked for: the newest."""


class ListedConfig(msgspec.Struct, frozen=True):
    """A configuration, as `channels list --json` prints it."""

    info: ConfigInfo
    sessions: int
    """Live sessions that are bound to it."""


@click.group("channels", cls=list_group.ListGroup, no_args_is_help=False)
def command() -> None:
    """Look at configurations: what the channels of sessions are.

    \b
    Examples:  rta-supervisor channels
               rta-supervisor channels show 3f2a
               rta-supervisor channels check engine.toml
    """


@click.command("list")
@click.option(
    "--limit", type=click.IntRange(1, options.COUNT_MAX), default=LISTED, show_default=True, help="The latest so many."
)
@options.as_json
@options.with_settings
def list_(config: settings.Settings, limit: int, as_json: bool) -> None:
    """List the configurations that were published, the latest first, and how many live sessions are bound to each.

    \b
    Examples:  rta-supervisor channels list
               rta-supervisor channels --json | jq -r '.configs[].info.identifier'
    """
    configs = one_shot.run(config, lambda link: _list(link, config, limit))
    if as_json:
        output.print_json({"configs": configs})
        return
    numbers = ("channels", "events", "size", "published", "sessions")
    table = output.table("configuration", "application", *numbers, "by", right=numbers)
    at_ms = now_ms()
    for each in configs:
        info = each.info
        cells = (output.count(info.channels), output.count(info.events), output.size(info.size_bytes))
        published = output.ago(info.published_ms, at_ms)
        table.add_row(info.identifier, info.application, *cells, published, output.count(each.sessions), info.principal)
    output.console().print(table)


async def _list(link: Link, config: settings.Settings, limit: int) -> list[ListedConfig]:
    bound = await sync.bound_configs(link, config.keys)
    infos = await catalogue_access.with_catalogue(config, lambda catalogue: catalogue.config_infos(limit=limit))
    return [ListedConfig(info, bound.get(info.identifier, 0)) for info in infos]


@click.command()
@click.argument("identifier")
@click.option(
    "--as",
    "form",
    type=click.Choice([form.value for form in files.FileForm]),
    help="Print it as a file, which `check` and `Channels.load` read.",
)
@options.as_json
@options.with_settings
def show(config: settings.Settings, identifier: str, form: str | None, as_json: bool) -> None:
    """Show a configuration: its channels, its events, and what viewers can't show of it.

    IDENTIFIER may be the beginning of one. `sessions show` names the configurations of a session.

    \b
    Examples:  rta-supervisor channels show 3f2a
               rta-supervisor channels show 3f2a --as toml > engine.toml
               rta-supervisor channels show 3f2a --json | jq '.channels[] | select(.unit == "bar")'
    """
    identifier, data = one_shot.run(config, lambda link: _find(link, config, identifier))
    channel_list = config_json.decode(data)
    if form is not None:
        output.utf8_stdout().write(files.dump(channel_list, files.FileForm(form)))
    elif as_json:
        output.print_json(_described(channel_list, identifier))
    else:
        output.console().print(_page(channel_list, identifier))


async def _find(link: Link, config: settings.Settings, identifier: str) -> tuple[str, bytes]:
    async def find(catalogue: Catalogue) -> tuple[str, bytes]:
        whole = identifier if name_checks.is_config_identifier(identifier) else await _complete(catalogue, identifier)
        data = await ConfigStore(link, config.keys, catalogue).get(whole)
        if data is None:
            raise errors.UnknownConfig(identifier=whole)
        return whole, data

    return await catalogue_access.with_catalogue(config, find)


async def _complete(catalogue: Catalogue, beginning: str) -> str:
    """The identifier of which only the beginning was given."""
    infos = await catalogue.config_infos(limit=FOUND_MAX)
    found = [info.identifier for info in infos if info.identifier.startswith(beginning.lower())]
    if len(found) > 1:
        raise errors.Usage(reason=f"{beginning!r} is the beginning of {len(found)} configurations: write more of it.")
    if not found:
        raise errors.UnknownConfig(identifier=beginning)
    return found[0]


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.as_json
def check(path: Path, as_json: bool) -> int:
    """Check a file with channels, in TOML, JSON or CSV, without publishing it.

    Lists every mistake with its line, and then ends with 65. Lists what viewers can't show as warnings, which alone end
    with 0: the file can be published and written all the same.

    \b
    Examples:  rta-supervisor channels check engine.toml
               rta-supervisor channels check channels.csv --json | jq .mistakes
    """
    checked = files.check(_read(path), files.form_of(path.name), name=str(path))
    if checked.channel_list is None:
        return _report_mistakes(path, checked, as_json=as_json)
    channel_list = checked.channel_list
    data = config_json.encode(channel_list)
    identifier = config_json.identifier(data)
    warnings = viewer_warnings.warnings(channel_list)
    if as_json:
        output.print_json(
            {
                "file": str(path),
                "valid": True,
                "identifier": identifier,
                "application": channel_list.application,
                "channels": len(channel_list.channels),
                "events": len(channel_list.events),
                "size_bytes": len(data),
                "mistakes": [],
                "warnings": warnings,
            }
        )
        return 0
    counts = f"{len(channel_list.channels):,} channels, {len(channel_list.events):,} events"
    facts = f"{counts}, {output.size(len(data))}, configuration {identifier}"
    output.console().print(output.escape(f"{path}: {facts}"))
    _print_warnings(warnings)
    return 0


class FileMistake(msgspec.Struct, frozen=True):
    """A mistake in a file, as `channels check --json` prints it."""

    line: int | None
    where: str
    """The channel or event."""
    reason: str


def _report_mistakes(path: Path, checked: files.CheckedFile, *, as_json: bool) -> int:
    """Print all mistakes of a file, and what viewers can't show of the rest."""
    mistakes = [
        FileMistake(error.facts["line"], error.facts["subject"], error.facts["reason"]) for error in checked.mistakes
    ]
    warnings = viewer_warnings.channel_warnings(checked.right_channels)
    if as_json:
        output.print_json({"file": str(path), "valid": False, "mistakes": mistakes, "warnings": warnings})
        return errors.BadChannels.exit_code
    table = output.table("line", "channel or event", "mistake", right=("line",))
    for mistake in mistakes:
        line = "" if mistake.line is None else str(mistake.line)
        table.add_row(line, output.escape(mistake.where), output.escape(mistake.reason))
    output.console().print(table)
    _print_warnings(warnings)
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes):,} mistakes"
    raise errors.BadChannels(where=str(path), reason=f"it has {count}")


def _print_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        output.console().print(f"warning: {output.escape(warning)}.")


def _read(path: Path) -> str:
    try:
        return files.decode(path.read_bytes(), name=str(path))
    except OSError as error:
        raise errors.BadChannels(where=str(path), reason=f"it can't be read: {error.strerror}") from error


def _described(channel_list: model.ChannelList, identifier: str) -> dict[str, Any]:
    return {
        "identifier": identifier,
        "application": channel_list.application,
        "description": channel_list.description,
        "channels": channel_list.channels,
        "events": channel_list.events,
        "warnings": viewer_warnings.warnings(channel_list),
    }


def _page(channel_list: model.ChannelList, identifier: str) -> RenderableType:
    facts = [("configuration", identifier), ("application", output.escape(channel_list.application))]
    if channel_list.description:
        facts.append(("description", output.escape(channel_list.description)))
    parts: list[RenderableType] = [output.key_value_table(facts), "", _channels_table(channel_list)]
    if channel_list.events:
        parts += ["", _events_table(channel_list)]
    if warnings := viewer_warnings.warnings(channel_list):
        parts += ["", *(f"warning: {output.escape(warning)}." for warning in warnings)]
    return Group(*parts)


def _channels_table(channel_list: model.ChannelList) -> Table:
    numbers = ("id", "min", "max")
    table = output.table("id", "name", "unit", "type", "kind", "min", "max", "group", "description", right=numbers)
    for channel in channel_list.channels:
        limits = ("" if bound is None else f"{bound:g}" for bound in (channel.min, channel.max))
        group = model.GROUP_SEPARATOR.join(channel.group)
        texts = (output.escape(text) for text in (group, channel.description))
        name, unit = output.escape(channel.name), output.escape(channel.unit)
        table.add_row(str(channel.id), name, unit, channel.type.value, channel.kind.value, *limits, *texts)
    return table


def _events_table(channel_list: model.ChannelList) -> Table:
    table = output.table("event", "priority", "text", right=("event",))
    for event in channel_list.events:
        table.add_row(str(event.id), event.priority.value, output.escape(event.text))
    return table


for subcommand in (list_, show, check):
    command.add_command(subcommand)
