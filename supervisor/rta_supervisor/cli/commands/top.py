"""`rta-supervisor top`: what is going on, again and again."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import anyio
import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link

HEAD_LINES: Final = 8


class TopSnapshot(msgspec.Struct, frozen=True):
    """What stood there at a moment."""

    at_s: float
    server: queries.ServerSummary
    sessions: Sequence[queries.SessionSummary]
    lanes: Sequence[queries.ControlStreamSummary]
    nodes: int
    dead_letters: int


class Rate(msgspec.Struct, frozen=True):
    """How fast one session grows."""

    samples_per_s: float
    bytes_per_s: float


@click.command("top")
@click.option("--every-s", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="How often to look.")
@click.option("--count", type=click.IntRange(min=1), help="How many times; for ever on a terminal, twice elsewhere.")
@options.with_settings
def command(loaded: settings.Settings, every_s: float, count: int | None) -> None:
    """A live table of sessions, the fastest first. Ctrl-C ends it. In a pipe or a file only the last look is printed.

    \b
    Examples:  rta-supervisor top
               rta-supervisor top --every-s 5 > top.txt
    """
    console = output.console()
    looks = count or (None if console.is_terminal else 2)
    one_shot.run(loaded, lambda link: _watch(link, loaded, console, every_s=every_s, looks=looks))


async def _watch(link: Link, loaded: settings.Settings, console: Console, *, every_s: float, looks: int | None) -> None:
    before = await take_snapshot(link, loaded)
    page: RenderableType = _page(before, {}, console)
    done = 1
    with _screen(page, console) as show:
        while looks is None or done < looks:
            await anyio.sleep(every_s)
            try:
                now = await take_snapshot(link, loaded)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                away = Text(f"{link.to_rta_error(error)}\nWaiting for it; this is how it was:", style="bold red")
                show(Group(away, page))
                continue
            page = _page(now, rates(before, now), console)
            show(page)
            before = now
            done += 1
    if not console.is_terminal:
        console.print(page)


@contextlib.contextmanager
def _screen(page: RenderableType, console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Shows a page in place of the one before it, on a terminal. Elsewhere nothing."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Live(page, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        yield lambda new: live.update(new, refresh=True)


async def take_snapshot(link: Link, loaded: settings.Settings) -> TopSnapshot:
    view = queries.RedisQueries(link, loaded)
    return TopSnapshot(
        at_s=anyio.current_time(),
        server=await view.server(),
        sessions=await view.sessions(),
        lanes=await view.control_streams(),
        nodes=len(await view.nodes()),
        dead_letters=await view.dead_letter_count(),
    )


def rates(before: TopSnapshot, now: TopSnapshot) -> dict[int, Rate]:
    """By stream session id, of those that stood there both times."""
    was = {one.stream_session_id: one for one in before.sessions}
    passed_s = max(now.at_s - before.at_s, 1e-9)
    return {
        one.stream_session_id: Rate(
            (one.samples - old.samples) / passed_s, (one.stored_bytes - old.stored_bytes) / passed_s
        )
        for one in now.sessions
        if (old := was.get(one.stream_session_id)) is not None
    }


def _page(found: TopSnapshot, rate_of: Mapping[int, Rate], console: Console) -> Group:
    server, at_ms = found.server, now_ms()
    counts = ", ".join(f"{count:,} {state}" for state, count in queries.by_state(found.sessions).items())
    waiting = sum(lane.waiting + lane.unacknowledged for lane in found.lanes)
    most = f" of {output.size(server.max_bytes)}" if server.max_bytes else ""
    head = Text(
        f"{output.format_time_ms(at_ms)}  {server.product} {server.version}, {output.size(server.used_bytes)}{most}\n"
        f"{found.nodes} supervisors, {counts}; {waiting:,} messages waiting, the oldest for "
        f"{output.duration(queries.oldest_age_s(found.lanes, at_ms))}; {found.dead_letters:,} dead letters\n"
    )
    numbers = ("samples/s", "bytes/s", "samples", "heard")
    made = output.table("session", "state", "stream", *numbers, right=numbers)
    nothing = Rate(0, 0)
    ordered = sorted(
        found.sessions, key=lambda one: (-rate_of.get(one.stream_session_id, nothing).samples_per_s, one.identity)
    )
    room = max(console.height - HEAD_LINES, 1) if console.is_terminal else len(ordered)
    for one in ordered[:room]:
        made.add_row(*_row(one, rate_of.get(one.stream_session_id), at_ms))
    left = len(ordered) - room
    return Group(head, made, *([f"{left:,} more"] if left > 0 else []))


def _row(one: queries.SessionSummary, rate: Rate | None, at_ms: int) -> tuple[Any, ...]:
    speed = output.EMPTY_CELL if rate is None else f"{rate.samples_per_s:,.0f}"
    volume = output.EMPTY_CELL if rate is None else output.size(round(rate.bytes_per_s))
    heard = f"{output.ago(one.heard_ms, at_ms)} ago"
    return (
        output.escape(one.identity),
        output.state(one.state),
        one.stream,
        speed,
        volume,
        output.count(one.samples),
        heard,
    )
