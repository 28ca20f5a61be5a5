"""`rta-supervisor status`: all at a glance."""

import click
import msgspec
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link, safe_url
from rta_wire import errors
from rta_wire.session import State


class Status(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    redis: queries.ServerSummary
    nodes: list[queries.NodeSummary]
    sessions: dict[str, int]
    streams: int
    stream_entries: int
    stream_bytes: int
    lanes: list[queries.ControlStreamSummary]
    oldest_message_s: float
    dead_letters: int


@click.command("status")
@options.as_json
@options.with_settings
def command(loaded: settings.Settings, as_json: bool) -> None:
    """What is open, who serves it, what is stuck and how full Redis is.

    Ends with 69 where no supervisor is running, so that a script can ask.

    \b
    Examples:  rta-supervisor status
               rta-supervisor status --json | jq .sessions.open
    """
    found = one_shot.run(loaded, lambda link: read_status(link, loaded))
    if as_json:
        output.print_json(found)
    else:
        output.console().print(_page(found, loaded))
    if not found.nodes:
        raise errors.NoSupervisor(url=safe_url(loaded.redis.url))


async def read_status(link: Link, loaded: settings.Settings) -> Status:
    view = queries.RedisQueries(link, loaded)
    server = await view.server()
    sessions = await view.sessions()
    streams = await view.streams(sessions)
    lanes = await view.control_streams()
    return Status(
        redis=server,
        nodes=await view.nodes(),
        sessions=queries.by_state(sessions),
        streams=len(streams),
        stream_entries=sum(line.entries for line in streams),
        stream_bytes=sum(line.memory_bytes or 0 for line in streams),
        lanes=lanes,
        oldest_message_s=queries.oldest_age_s(lanes),
        dead_letters=await view.dead_letter_count(),
    )


def _page(found: Status, loaded: settings.Settings) -> object:
    server = found.redis
    most = f"of {output.size(server.max_bytes)}" if server.max_bytes else "no limit"
    stored = output.size(found.stream_bytes)
    waiting = sum(lane.waiting + lane.unacknowledged for lane in found.lanes)
    return output.key_value_table(
        [
            ("redis", f"{server.product} {server.version} at {safe_url(loaded.redis.url)}"),
            ("memory", f"{output.size(server.used_bytes)}, {most}, {server.policy}"),
            ("supervisors", _nodes(found.nodes)),
            ("sessions", _counts(found.sessions)),
            ("streams", f"{found.streams}, {output.count(found.stream_entries)} entries, {stored}"),
            ("messages", f"{output.count(waiting)} waiting, the oldest for {output.duration(found.oldest_message_s)}"),
            ("dead letters", _letters(found.dead_letters)),
        ]
    )


def _nodes(nodes: list[queries.NodeSummary]) -> Text:
    if not nodes:
        return Text("none is running", style="bold red")
    at_ms = now_ms()
    words = [f"{output.escape(one.node)} ({one.version}, seen {output.ago(one.seen_ms, at_ms)} ago)" for one in nodes]
    return Text(", ".join(words))


def _counts(sessions: dict[str, int]) -> Text:
    """Those that live. One that has ended is there for a moment longer, until it is put away."""
    line = Text()
    for state in (State.OPEN, State.WAITING):
        line.append(", " if line else "").append(f"{output.count(sessions.get(state, 0))} ")
        line.append_text(output.state(state))
    return line


def _letters(count: int) -> Text:
    if not count:
        return Text("none")
    return Text(f"{output.count(count)}: see rta-supervisor dlq list", style="yellow")
