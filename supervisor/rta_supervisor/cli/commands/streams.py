"""`rta-supervisor streams`: how long, how large and how old streams are. `streams trim` is in `cli/streams_trim.py`."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from rta_supervisor.cli import list_group, options, output, session_lookup, streams_trim
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, summaries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import day_streams

NUMBERS: Final = ("days", "entries", "kept", "removed", "memory", "cold", "oldest", "newest", "open sessions")
"""Columns of numbers; `days` and `cold` are left out where no stream has any."""


SORT_KEYS: Final[dict[str, Callable[[Sequence[summaries.StreamSummary]], Any]]] = {
    "memory": lambda streams: -sum(stream.total_bytes for stream in streams),
    "entries": lambda streams: -sum(stream.entries + stream.cold_entries for stream in streams),
    "oldest": lambda streams: min((stream.first_ms for stream in streams if stream.first_ms), default=math.inf),
    "name": lambda streams: streams[0].stream,
}
"""By what rows are sorted. A row is a stream, or the days of a source together."""


@click.group("streams", cls=list_group.ListGroup, no_args_is_help=False)
def command() -> None:
    """List streams, or trim one.

    \b
    Examples:  rta-supervisor streams
               rta-supervisor streams trim rocket-engine --keep 1000
    """


@click.command("list")
@click.option("--days", "by_day", is_flag=True, help="One line for each day of a source, the newest first.")
@click.option("--stream", default="", metavar="NAME", help="Only this stream, or the days of this source.")
@click.option(
    "--sort", type=click.Choice(list(SORT_KEYS)), default="memory", show_default=True, help="What comes first."
)
@options.as_json
@options.with_settings
def list_(config: settings.Settings, by_day: bool, stream: str, sort: str, as_json: bool) -> None:
    """List the streams that sessions use, the largest by memory first.

    `kept` is how many entries trimming leaves, `removed` how many are gone, `cold` the size of what is compacted. The
    days of a source are one line; --json has them all.

    \b
    Examples:  rta-supervisor streams list
               rta-supervisor streams --days --stream rocket-engine
               rta-supervisor streams --sort oldest
               rta-supervisor streams --json | jq '[.streams[].memory_bytes] | add'
    """
    streams = one_shot.run(config, lambda link: _read_streams(link, config, stream))
    streams.sort(key=lambda summary: (SORT_KEYS[sort]([summary]), summary.stream))
    if as_json:
        output.print_json({"streams": streams})
        return
    unused = {
        *(("days",) if all(stream.day is None for stream in streams) else ()),
        *(("cold",) if not any(stream.cold_entries for stream in streams) else ()),
    }
    numbers = [name for name in NUMBERS if name not in unused]
    table = output.table("stream", *numbers, right=numbers)
    at_ms = now_ms()
    for group in _group_by_source(streams, sort):
        for row in [[stream] for stream in group] if by_day else [group]:
            cells = dict(zip(NUMBERS, _number_cells(row, at_ms), strict=True))
            table.add_row(_name(row), *(cells[name] for name in numbers))
    output.console().print(table)


async def _read_streams(link: Link, config: settings.Settings, name: str) -> list[summaries.StreamSummary]:
    """All streams, or those of a name: of a source its days as well."""
    redis_queries = queries.RedisQueries(link, config)
    streams = await redis_queries.streams(await redis_queries.sessions())
    if not name:
        return streams
    matching = [summary for summary in streams if day_streams.is_stream_of(summary.stream, name)]
    if not matching:
        await session_lookup.require_stream(redis_queries, name)
    return matching


def _group_by_source(streams: Sequence[summaries.StreamSummary], sort: str) -> list[list[summaries.StreamSummary]]:
    """Sorted groups; in each the days of one source, the newest first, or one stream without days."""
    groups: dict[tuple[str, bool], list[summaries.StreamSummary]] = {}
    for stream in streams:
        groups.setdefault((stream.source, stream.day is not None), []).append(stream)
    for group in groups.values():
        group.sort(key=lambda stream: stream.day or "", reverse=True)
    return sorted(groups.values(), key=lambda group: (SORT_KEYS[sort](group), group[0].stream))


def _name(streams: Sequence[summaries.StreamSummary]) -> str:
    return streams[0].stream if len(streams) == 1 else f"{streams[0].source}.*"


def _memory_bytes(streams: Sequence[summaries.StreamSummary]) -> list[int]:
    return [stream.memory_bytes for stream in streams if stream.memory_bytes is not None]


def _number_cells(streams: Sequence[summaries.StreamSummary], at_ms: int) -> tuple[str, ...]:
    """Cells of one row of the table, in the order of `NUMBERS`: sums over the streams."""
    memory_bytes = _memory_bytes(streams)
    first_ms = [stream.first_ms for stream in streams if stream.first_ms is not None]
    last_ms = [stream.last_ms for stream in streams if stream.last_ms is not None]
    return (
        output.count(len(streams)) if streams[0].day is not None else "",
        output.count(sum(stream.entries + stream.cold_entries for stream in streams)),
        output.count(sum(stream.max_entries for stream in streams)),
        output.count(sum(stream.removed for stream in streams)),
        output.size(sum(memory_bytes) if memory_bytes else None),
        output.size(sum(stream.cold_bytes for stream in streams) or None),
        output.ago(min(first_ms, default=None), at_ms),
        output.ago(max(last_ms, default=None), at_ms),
        output.count(sum(stream.open_sessions for stream in streams)),
    )


command.add_command(list_)
command.add_command(streams_trim.trim)
