"""`rta-supervisor status`: sessions, supervisors, waiting messages and memory of one deployment on a page."""

import click
import msgspec
from rich.table import Table
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, summaries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_url
from rta_wire.session import State


class DeploymentStatus(msgspec.Struct, frozen=True):
    """What `status --json` prints."""

    redis: summaries.ServerSummary
    nodes: list[summaries.NodeSummary]
    sessions: dict[str, int]
    streams: int
    stream_entries: int
    stream_bytes: int
    """Memory of live streams."""
    stream_cold_bytes: int
    """Memory of what is compacted."""
    lanes: list[summaries.ControlStreamSummary]
    oldest_message_s: float
    dead_letters: int


@click.command("status")
@options.as_json
@options.with_settings
def command(config: settings.Settings, as_json: bool) -> None:
    """Show what is open, which supervisors run, what waits and how full Redis is.

    Ends with 69 where no supervisor is running.

    \b
    Examples:  rta-supervisor status
               rta-supervisor status --json | jq .sessions.open
    """
    status = one_shot.run(config, lambda link: read_status(link, config), is_prefix_checked=False)
    if as_json:
        output.print_json(status)
    else:
        output.console().print(_page(status, config))
    if not status.nodes:
        raise errors.NoSupervisor(url=redis_url.redact(config.redis.url), prefix=config.keys.prefix)


async def read_status(link: Link, config: settings.Settings) -> DeploymentStatus:
    redis_queries = queries.RedisQueries(link, config)
    server = await redis_queries.server()
    sessions = await redis_queries.sessions()
    streams = await redis_queries.streams(sessions)
    control_streams = await redis_queries.control_streams()
    return DeploymentStatus(
        redis=server,
        nodes=await redis_queries.nodes(),
        sessions=summaries.count_by_state(sessions),
        streams=len(streams),
        stream_entries=sum(stream.entries for stream in streams),
        stream_bytes=sum(stream.memory_bytes or 0 for stream in streams),
        stream_cold_bytes=sum(stream.cold_bytes for stream in streams),
        lanes=control_streams,
        oldest_message_s=summaries.oldest_age_s(control_streams),
        dead_letters=await redis_queries.dead_letter_count(),
    )


def _page(status: DeploymentStatus, config: settings.Settings) -> Table:
    server = status.redis
    limit = f"of {output.size(server.max_bytes)}" if server.max_bytes else "no limit"
    stored = output.size(status.stream_bytes)
    if status.stream_cold_bytes:
        stored += f" live and {output.size(status.stream_cold_bytes)} cold"
    waiting = output.count(sum(stream.waiting + stream.unacknowledged for stream in status.lanes))
    return output.key_value_table(
        [
            ("redis", f"{server.product} {server.version} at {redis_url.redact(config.redis.url)}"),
            ("memory", f"{output.size(server.used_bytes)}, {limit}, {server.policy}"),
            ("supervisors", _format_nodes(status.nodes)),
            ("sessions", _format_live_counts(status.sessions)),
            ("streams", f"{status.streams}, {output.count(status.stream_entries)} entries, {stored}"),
            ("messages", f"{waiting} waiting, the oldest for {output.duration(status.oldest_message_s)}"),
            ("dead letters", _format_dead_letters(status.dead_letters)),
        ]
    )


def _format_nodes(nodes: list[summaries.NodeSummary]) -> Text:
    if not nodes:
        return Text("none is running", style="bold red")
    at_ms = now_ms()
    return Text(
        ", ".join(
            f"{output.escape(node.node)} ({node.version}, seen {output.ago(node.seen_ms, at_ms)} ago)" for node in nodes
        )
    )


def _format_live_counts(sessions: dict[str, int]) -> Text:
    """How many sessions are open and waiting. Closed ones are left out: they stay only until the catalogue has them."""
    counts = Text()
    for state in (State.OPEN, State.WAITING):
        counts.append(", " if counts else "").append(f"{output.count(sessions.get(state, 0))} ")
        counts.append_text(output.state(state))
    return counts


def _format_dead_letters(count: int) -> Text:
    if not count:
        return Text("none")
    return Text(f"{output.count(count)}: see rta-supervisor dlq list", style="yellow")
