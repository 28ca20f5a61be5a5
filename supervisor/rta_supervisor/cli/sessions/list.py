"""`rta-supervisor sessions`: what is open. Each thing that can be done with one is a module of its own."""

from collections.abc import Sequence
from typing import Any

import click
from rich.text import Text

from rta_supervisor.catalogue.model import Query
from rta_supervisor.cli import options, output, query_options
from rta_supervisor.cli.sessions import end, export, resurrect, search, show
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_wire import errors
from rta_wire.session import State


class SessionsGroup(click.Group):
    """`sessions --all` is `sessions list --all`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("sessions", cls=SessionsGroup)
def command() -> None:
    """List sessions, search all that ever were, look at one, end one, bring one back.

    \b
    Examples:  rta-supervisor sessions list
               rta-supervisor sessions --all --text rig --since 7d
               rta-supervisor sessions show run-17
               rta-supervisor sessions close run-17
    """


@command.command("list")
@click.option("--all", "is_all", is_flag=True, help="Search the catalogue: all sessions that ever were.")
@query_options.search_options
@click.option("--before", type=click.IntRange(min=0), metavar="ID", help="Go on with sessions of lower ids.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="How many; 0: all.")
@options.as_json
@options.with_settings
def list_(
    *, loaded: settings.Settings, is_all: bool, query: Query, before: int | None, limit: int, as_json: bool
) -> None:
    """Live sessions, the one that was heard of last comes first; with --all those of the catalogue, newest first.

    Closed ones leave the list of live ones as soon as they are safe in the catalogue; `show` finds them for a day.

    \b
    Examples:  rta-supervisor sessions list --state open
               rta-supervisor sessions list --stream rocket-engine --json | jq -r .sessions[].identity
               rta-supervisor sessions --all --detail Rig=4 --since 2026-11-01 --until 2026-11-02
    """
    if is_all:
        search.search(loaded, query, before=before, limit=limit, as_json=as_json)
        return
    if before is not None or query != Query(states=query.states, stream=query.stream):
        raise errors.Usage(reason="Only the catalogue can be searched like that: say --all as well.")
    found = one_shot.run(loaded, lambda link: queries.RedisQueries(link, loaded).sessions())
    wanted = [one for one in found if one.state in (query.states or State) and query.stream in ("", one.stream)]
    part = wanted[: limit or None]
    if as_json:
        output.print_json({"sessions": part, "total": len(wanted)})
        return
    console = output.console()
    console.print(_table(part))
    if len(part) < len(wanted):
        console.print(f"{len(wanted) - len(part):,} more: --limit 0 shows all")


def _table(lines: Sequence[queries.SessionSummary]) -> Any:
    numbers = ("id", "samples", "bytes", "open for", "heard")
    made = output.table(
        "session", "state", "stream", "id", "principal", "samples", "bytes", *numbers[3:], right=numbers
    )
    at_ms = now_ms()
    for one in lines:
        made.add_row(
            output.escape(one.identity),
            output.state(one.state) + Text(" lost data", style="red") if one.lost_data else output.state(one.state),
            one.stream,
            str(one.stream_session_id),
            output.escape(one.principal),
            output.count(one.samples),
            output.size(one.stored_bytes),
            output.ago(one.opened_ms, at_ms),
            f"{output.ago(one.heard_ms, at_ms)} ago" if one.heard_ms is not None else output.EMPTY_CELL,
        )
    return made


command.add_command(show.show)
command.add_command(end.close)
command.add_command(end.abandon)
command.add_command(resurrect.resurrect)
command.add_command(export.export)
