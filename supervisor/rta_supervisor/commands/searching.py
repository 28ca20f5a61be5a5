"""`rta-supervisor sessions list --all`: what the catalogue knows of sessions, page by page."""

from collections.abc import Sequence
from typing import Any

from rta_supervisor import settings
from rta_supervisor.catalogue import Catalogue, Query
from rta_supervisor.commands import exporting, looking, shown


def search(loaded: settings.Settings, query: Query, *, before: int | None, limit: int, as_json: bool) -> None:
    """Prints what is found, and how to go on."""
    lines = looking.run(loaded, lambda catalogue: _find(catalogue, query, before, limit))
    part = lines[: limit or None]
    next_before = part[-1].stream_session_id if len(part) < len(lines) else None
    if as_json:
        shown.json({"sessions": part, "next_before": next_before})
        return
    console = shown.console()
    console.print(_table(part))
    if next_before is not None:
        console.print(f"There are more: --before {next_before}")


async def _find(catalogue: Catalogue, query: Query, before: int | None, limit: int) -> list[exporting.Line]:
    """One more than was asked for where there are more."""
    mark = None if before is None else (before, "")
    rows = looking.everything(catalogue, query, limit=limit and limit + 1, before=mark)
    return [exporting.line(row) async for row in rows]


def _table(lines: Sequence[exporting.Line]) -> Any:
    numbers = ("id", "samples", "bytes")
    columns = ("session", "identifier", "state", "stream", "id", "from", "to", "samples", "bytes")
    made = shown.table(*columns, right=numbers)
    for one in lines:
        made.add_row(
            shown.safe(one.identity),
            shown.safe(one.identifier),
            shown.state(one.state),
            one.stream,
            str(one.stream_session_id),
            shown.moment_ns(one.start_ns),
            shown.moment_ns(one.end_ns),
            shown.count(one.samples),
            shown.size(one.stored_bytes),
        )
    return made
