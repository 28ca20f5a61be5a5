"""`rta-supervisor streams`: how long, how large and how old."""

from collections.abc import Sequence
from typing import Final

import click

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link

NUMBERS: Final = ("days", "entries", "kept", "removed", "memory", "cold", "oldest", "newest", "open sessions")
"""What is shown of streams; the first and `cold` only where there is any."""


@click.command("streams")
@click.option("--days", "each_day", is_flag=True, help="Each day of a source by itself, the newest first.")
@options.as_json
@options.with_settings
def command(loaded: settings.Settings, each_day: bool, as_json: bool) -> None:
    """Streams that sessions used, the largest first.

    `kept` is what trimming leaves, `removed` what it took so far, `cold` what is compacted of it. The days of a source
    are one line; --json has them all.

    \b
    Examples:  rta-supervisor streams
               rta-supervisor streams --days
               rta-supervisor streams --json | jq '[.streams[].memory_bytes] | add'
    """
    lines = one_shot.run(loaded, lambda link: _look(link, loaded))
    if as_json:
        output.print_json({"streams": lines})
        return
    unused = {
        *(("days",) if all(line.day is None for line in lines) else ()),
        *(("cold",) if not any(line.cold_entries for line in lines) else ()),
    }
    numbers = [name for name in NUMBERS if name not in unused]
    made = output.table("stream", *numbers, right=numbers)
    at_ms = now_ms()
    for some in _groups(lines):
        for name, part in [(line.stream, [line]) for line in some] if each_day else [(_name(some), some)]:
            figures = dict(zip(NUMBERS, _figures(part, at_ms), strict=True))
            made.add_row(name, *(figures[number] for number in numbers))
    output.console().print(made)


async def _look(link: Link, loaded: settings.Settings) -> list[queries.StreamSummary]:
    view = queries.RedisQueries(link, loaded)
    return await view.streams(await view.sessions())


def _groups(lines: Sequence[queries.StreamSummary]) -> list[list[queries.StreamSummary]]:
    """Days of one source together, the newest first; the largest source first."""
    found: dict[tuple[str, bool], list[queries.StreamSummary]] = {}
    for line in lines:
        found.setdefault((line.source, line.day is not None), []).append(line)
    for some in found.values():
        some.sort(key=lambda line: line.day or "", reverse=True)
    return sorted(found.values(), key=lambda some: (-sum(line.memory_bytes or 0 for line in some), some[0].stream))


def _name(some: Sequence[queries.StreamSummary]) -> str:
    return some[0].stream if len(some) == 1 else f"{some[0].source}.*"


def _figures(some: Sequence[queries.StreamSummary], at_ms: int) -> tuple[str, ...]:
    """Of streams together."""
    sizes = [line.memory_bytes for line in some if line.memory_bytes is not None]
    first = [line.first_ms for line in some if line.first_ms is not None]
    last = [line.last_ms for line in some if line.last_ms is not None]
    return (
        output.count(len(some)) if some[0].day is not None else "",
        output.count(sum(line.entries + line.cold_entries for line in some)),
        output.count(sum(line.max_entries for line in some)),
        output.count(sum(line.removed for line in some)),
        output.size(sum(sizes) if sizes else None),
        output.size(sum(line.cold_bytes for line in some) or None),
        output.ago(min(first, default=None), at_ms),
        output.ago(max(last, default=None), at_ms),
        output.count(sum(line.open_sessions for line in some)),
    )
