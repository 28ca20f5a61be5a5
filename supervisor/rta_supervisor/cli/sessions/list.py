"""`rta-supervisor sessions list`: live sessions out of Redis, or with `--all` every session that the catalogue has."""

from collections.abc import Sequence
from typing import Final

import click
from rich.table import Table
from rich.text import Text

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import Query
from rta_supervisor.cli import catalogue_access, options, output, query_options, session_lookup
from rta_supervisor.cli.catalogue_access import CatalogueLine
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, summaries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors
from rta_wire.session import State

ID_MAX: Final = 2**63 - 1


@click.command("list")
@click.option("--all", "is_all", is_flag=True, help="Search the catalogue, which has all sessions that ever were.")
@query_options.search_options
@click.option(
    "--before",
    type=click.IntRange(0, ID_MAX),
    metavar="ID",
    help="Sessions of lower ids than this, to get the next page.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, options.COUNT_MAX),
    default=100,
    show_default=True,
    help="How many sessions to list; 0: all.",
)
@options.as_json
@options.with_settings
def list_(
    *, config: settings.Settings, is_all: bool, query: Query, before: int | None, limit: int, as_json: bool
) -> None:
    """List live sessions, or with --all those of the catalogue.

    Live sessions are sorted by their last report, the latest first; those of the catalogue by their ids, the newest
    first. A closed session is no longer listed as live once the catalogue has it; `show` finds it for a day.

    \b
    Examples:  rta-supervisor sessions list --state open
               rta-supervisor sessions list --stream rocket-engine --json | jq -r .sessions[].identity
               rta-supervisor sessions --all --detail Rig=4 --since 2026-11-01 --until 2026-11-02
    """
    if is_all:
        _list_catalogue(config, query, before=before, limit=limit, as_json=as_json)
        return
    if before is not None or query != Query(states=query.states, stream=query.stream):
        raise errors.Usage(reason="Only the catalogue can be searched like that: say --all as well.")
    _list_live(config, query, limit=limit, as_json=as_json)


def _list_live(config: settings.Settings, query: Query, *, limit: int, as_json: bool) -> None:
    live = one_shot.run(config, lambda link: _read_live(link, config, query.stream))
    matching = [session for session in live if session.state in (query.states or tuple(State))]
    page = matching[: limit or None]
    if as_json:
        output.print_json({"sessions": page, "total": len(matching)})
        return
    console = output.console()
    console.print(_live_table(page))
    if len(page) < len(matching):
        console.print(f"{len(matching) - len(page):,} more: --limit 0 shows all")


async def _read_live(link: Link, config: settings.Settings, stream: str) -> list[summaries.SessionSummary]:
    """Live sessions: all, or those of a stream, or of a source on all its days."""
    redis_queries = queries.RedisQueries(link, config)
    live = await redis_queries.sessions()
    if not stream:
        return live
    matching = [session for session in live if day_streams.is_stream_of(session.stream, stream)]
    if not matching:
        await session_lookup.require_stream(redis_queries, stream)
    return matching


def _live_table(sessions: Sequence[summaries.SessionSummary]) -> Table:
    columns = ("session", "state", "stream", "id", "principal", "samples", "bytes", "open for", "heard")
    table = output.table(*columns, right=("id", "samples", "bytes", "open for", "heard"))
    at_ms = now_ms()
    for session in sessions:
        state = output.state(session.state)
        table.add_row(
            output.escape(session.identity),
            state + Text(" lost data", style="red") if session.lost_data else state,
            session.stream,
            str(session.stream_session_id),
            output.escape(session.principal),
            output.count(session.samples),
            output.size(session.stored_bytes),
            output.ago(session.opened_ms, at_ms),
            f"{output.ago(session.heard_ms, at_ms)} ago" if session.heard_ms is not None else output.EMPTY_CELL,
        )
    return table


def _list_catalogue(config: settings.Settings, query: Query, *, before: int | None, limit: int, as_json: bool) -> None:
    """Prints one page of what the query finds, and the option that gives the next page."""
    lines = catalogue_access.run(config, lambda catalogue: _search(catalogue, query, before, limit))
    page = lines[: limit or None]
    next_before = page[-1].stream_session_id if len(page) < len(lines) else None
    if as_json:
        output.print_json({"sessions": page, "next_before": next_before})
        return
    console = output.console()
    console.print(_catalogue_table(page))
    if next_before is not None:
        console.print(f"There are more: --before {next_before}")


async def _search(catalogue: Catalogue, query: Query, before: int | None, limit: int) -> list[CatalogueLine]:
    """At most one line more than `limit`, which says that there is a next page."""
    cursor = None if before is None else (before, "")
    rows = catalogue_access.search_rows(catalogue, query, limit=limit + 1 if limit else 0, before=cursor)
    return [CatalogueLine(**catalogue_access.line_fields(row)) async for row in rows]


def _catalogue_table(lines: Sequence[CatalogueLine]) -> Table:
    columns = ("session", "identifier", "state", "stream", "id", "from", "to", "samples", "bytes")
    table = output.table(*columns, right=("id", "samples", "bytes"))
    for line in lines:
        table.add_row(
            output.escape(line.identity),
            output.escape(line.identifier),
            output.state(line.state),
            line.stream,
            str(line.stream_session_id),
            output.format_time_ns(line.start_ns),
            output.format_time_ns(line.end_ns),
            output.count(line.samples),
            output.size(line.stored_bytes),
        )
    return table
