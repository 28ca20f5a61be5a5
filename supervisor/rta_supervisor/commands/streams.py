"""`rta-supervisor streams`: how long, how large and how old."""

import click

from rta_supervisor import overview, settings
from rta_supervisor.clock import now_ms
from rta_supervisor.commands import asking, options, shown
from rta_supervisor.link import Link


@click.command("streams")
@options.as_json
@options.configured
def command(loaded: settings.Settings, as_json: bool) -> None:
    """Streams that sessions used, the largest first.

    `kept` is what trimming leaves, `removed` what it took so far, `cold` what is compacted of it.

    \b
    Examples:  rta-supervisor streams
               rta-supervisor streams --json | jq '[.streams[].memory_bytes] | add'
    """
    lines = asking.run(loaded, lambda link: _look(link, loaded))
    if as_json:
        shown.json({"streams": lines})
        return
    numbers = ("entries", "kept", "removed", "memory", "cold", "oldest", "newest", "open sessions")
    made = shown.table("stream", *numbers, right=numbers)
    at_ms = now_ms()
    for line in lines:
        made.add_row(
            line.stream,
            shown.count(line.entries + line.cold_entries),
            shown.count(line.max_entries),
            shown.count(line.removed),
            shown.size(line.memory_bytes),
            shown.size(line.cold_bytes or None),
            shown.ago(line.first_ms, at_ms),
            shown.ago(line.last_ms, at_ms),
            shown.count(line.open_sessions),
        )
    shown.console().print(made)


async def _look(link: Link, loaded: settings.Settings) -> list[overview.StreamLine]:
    view = overview.Overview(link, loaded)
    return await view.streams(await view.sessions())
