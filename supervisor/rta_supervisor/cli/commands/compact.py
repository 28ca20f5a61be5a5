"""`rta-supervisor compact`: which streams are compacted, and pausing and resuming compaction."""

import getpass
import os

import click
import msgspec

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot, scanning
from rta_supervisor.transport.link import Link
from rta_wire.stream import cold_index


class ColdLine(msgspec.Struct, frozen=True):
    """The cold part of one stream, as `compact status --json` prints it."""

    stream: str
    entries: int
    batches: int
    raw_bytes: int
    live_bytes: int
    cold_bytes: int
    first_id: str
    last_id: str
    moved_ms: int


@click.group("compact")
def command() -> None:
    """Look at compaction, pause and resume it. When and how fast is set in [compact].

    \b
    Examples:  rta-supervisor compact status
               rta-supervisor compact pause
               rta-supervisor compact resume
    """


@command.command()
@options.as_json
@options.with_settings
def status(config: settings.Settings, as_json: bool) -> None:
    """List streams of which a part is cold, and say whether compaction is paused.

    \b
    Examples:  rta-supervisor compact status
               rta-supervisor compact status --json | jq '[.streams[].cold_bytes] | add'
    """
    paused_by, lines = one_shot.run(config, lambda link: _read_status(link, config))
    if as_json:
        output.print_json({"paused_by": paused_by or None, "streams": lines})
        return
    numbers = ("entries", "batches", "live", "cold", "times smaller", "moved")
    table = output.table("stream", *numbers, right=numbers)
    for line in lines:
        table.add_row(
            line.stream,
            output.count(line.entries),
            output.count(line.batches),
            output.size(line.live_bytes),
            output.size(line.cold_bytes),
            f"{line.live_bytes / max(line.cold_bytes, 1):.2f}",
            f"{output.ago(line.moved_ms, now_ms())} ago",
        )
    console = output.console()
    console.print(table if lines else "nothing is cold")
    if paused_by:
        console.print(f"paused by {output.escape(paused_by)}: rta-supervisor compact resume")


@command.command()
@options.with_settings
def pause(config: settings.Settings) -> None:
    """Pause compaction after the batch that is being moved, on every host, until `resume`.

    \b
    Examples:  rta-supervisor compact pause
    """
    one_shot.run(config, lambda link: link.do("SET", config.keys.cold_pause(), _user_name()))
    click.echo("compaction is paused")


@command.command()
@options.with_settings
def resume(config: settings.Settings) -> None:
    """Resume compaction where it was paused.

    \b
    Examples:  rta-supervisor compact resume
    """
    one_shot.run(config, lambda link: link.do("SET", config.keys.cold_pause(), ""))
    click.echo("compaction goes on" if config.compact.after_s else "compaction goes on once compact.after_s is set")


def _user_name() -> str:
    """Who runs the command. An account may have no name, as in a container, or one that is not UTF-8."""
    try:
        return output.escape(getpass.getuser())
    except (OSError, KeyError):
        return f"user {os.getuid()}"


async def _read_status(link: Link, config: settings.Settings) -> tuple[str, list[ColdLine]]:
    """Who paused compaction, empty where it is not paused, and the cold part of each stream that has one."""
    paused_by = await link.do("GET", config.keys.cold_pause()) or b""
    raw_extents = await scanning.read_hash(link, config.keys.cold_index())
    lines = []
    for stream, raw_extent in sorted(raw_extents.items()):
        extent = cold_index.parse(raw_extent)
        assert extent is not None
        lines.append(
            ColdLine(
                stream=stream.decode(),
                entries=extent.entries,
                batches=extent.batches,
                raw_bytes=extent.raw_bytes,
                live_bytes=extent.live_bytes,
                cold_bytes=extent.size_bytes,
                first_id=extent.first_id,
                last_id=extent.last_id,
                moved_ms=extent.noted_ms,
            )
        )
    return paused_by.decode(), lines
