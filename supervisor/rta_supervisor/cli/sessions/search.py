"""`rta-supervisor sessions list --all`: what the catalogue knows of sessions, page by page."""

from collections.abc import Sequence
from typing import Any

from rta_supervisor.catalogue.model import Catalogue, Query
from rta_supervisor.cli import catalogue_access, output
from rta_supervisor.cli.sessions import export
from rta_supervisor.settings import settings


def search(loaded: settings.Settings, query: Query, *, before: int | None, limit: int, as_json: bool) -> None:
    """Prints what is found, and how to go on."""
    lines = catalogue_access.run(loaded, lambda catalogue: _find(catalogue, query, before, limit))
    part = lines[: limit or None]
    next_before = part[-1].stream_session_id if len(part) < len(lines) else None
    if as_json:
        output.print_json({"sessions": part, "next_before": next_before})
        return
    console = output.console()
    console.print(_table(part))
    if next_before is not None:
        console.print(f"There are more: --before {next_before}")


async def _find(catalogue: Catalogue, query: Query, before: int | None, limit: int) -> list[export.CatalogueLine]:
    """One more than was asked for where there are more."""
    mark = None if before is None else (before, "")
    rows = catalogue_access.search_rows(catalogue, query, limit=limit and limit + 1, before=mark)
    return [export.line(row) async for row in rows]


def _table(lines: Sequence[export.CatalogueLine]) -> Any:
    numbers = ("id", "samples", "bytes")
    columns = ("session", "identifier", "state", "stream", "id", "from", "to", "samples", "bytes")
    made = output.table(*columns, right=numbers)
    for one in lines:
        made.add_row(
            output.escape(one.identity),
            output.escape(one.identifier),
            output.state(one.state),
            one.stream,
            str(one.stream_session_id),
            output.format_time_ns(one.start_ns),
            output.format_time_ns(one.end_ns),
            output.count(one.samples),
            output.size(one.stored_bytes),
        )
    return made
