"""`rta-supervisor top`: a table of live sessions with their rates, read again at an interval."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import anyio
import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, summaries
from rta_supervisor.settings import settings
from rta_supervisor.transport import failures, one_shot
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link

EVERY_MAX_S: Final = 86_400.0
HEADER_LINES: Final = 8
"""Lines of the terminal that are not rows of sessions."""


class TopSnapshot(msgspec.Struct, frozen=True):
    """What one reading of Redis gave."""

    at_s: float
    server: summaries.ServerSummary
    sessions: Sequence[summaries.SessionSummary]
    control_streams: Sequence[summaries.ControlStreamSummary]
    nodes: int
    dead_letters: int


class SessionRate(msgspec.Struct, frozen=True):
    """How fast one session grows."""

    samples_per_s: float
    bytes_per_s: float


@click.command("top")
@click.option(
    "--every-s",
    type=options.FiniteRange(0.1, EVERY_MAX_S),
    default=1.0,
    show_default=True,
    help="Seconds between readings.",
)
@click.option(
    "--count",
    type=click.IntRange(1, options.COUNT_MAX),
    help="How many readings; without end on a terminal, two elsewhere.",
)
@options.with_settings
def command(config: settings.Settings, every_s: float, count: int | None) -> None:
    """Show a live table of sessions, the fastest first. Ctrl-C ends it. In a pipe or a file only the last reading is
    printed.

    \b
    Examples:  rta-supervisor top
               rta-supervisor top --every-s 5 > top.txt
    """
    console = output.console()
    readings = count or (None if console.is_terminal else 2)
    one_shot.run(config, lambda link: _watch(link, config, console, every_s=every_s, readings=readings))


async def _watch(
    link: Link, config: settings.Settings, console: Console, *, every_s: float, readings: int | None
) -> None:
    before = await take_snapshot(link, config)
    page: RenderableType = _page(before, {}, console)
    done = 1
    with _screen(page, console) as show:
        while readings is None or done < readings:
            await anyio.sleep(every_s)
            try:
                now = await take_snapshot(link, config)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                notice = Text(
                    f"{failures.to_rta_error(link.config.url, error)}\nWaiting for it; this is how it was:",
                    style="bold red",
                )
                show(Group(notice, page))
                continue
            page = _page(now, session_rates(before, now), console)
            show(page)
            before = now
            done += 1
    if not console.is_terminal:
        with output.writing():
            console.print(page)


@contextlib.contextmanager
def _screen(page: RenderableType, console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Gives the function that shows a page in place of the one before it on a terminal, and does nothing elsewhere."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Live(page, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        yield lambda next_page: live.update(next_page, refresh=True)


async def take_snapshot(link: Link, config: settings.Settings) -> TopSnapshot:
    redis_queries = queries.RedisQueries(link, config)
    return TopSnapshot(
        at_s=anyio.current_time(),
        server=await redis_queries.server(),
        sessions=await redis_queries.sessions(),
        control_streams=await redis_queries.control_streams(),
        nodes=len(await redis_queries.nodes()),
        dead_letters=await redis_queries.dead_letter_count(),
    )


def session_rates(before: TopSnapshot, now: TopSnapshot) -> dict[int, SessionRate]:
    """Rates by stream session id, of sessions that are in both snapshots."""
    sessions_before = {session.stream_session_id: session for session in before.sessions}
    elapsed_s = max(now.at_s - before.at_s, 1e-9)
    return {
        session.stream_session_id: SessionRate(
            (session.samples - earlier.samples) / elapsed_s, (session.stored_bytes - earlier.stored_bytes) / elapsed_s
        )
        for session in now.sessions
        if (earlier := sessions_before.get(session.stream_session_id)) is not None
    }


def _page(snapshot: TopSnapshot, rates: Mapping[int, SessionRate], console: Console) -> Group:
    at_ms = now_ms()
    numbers = ("samples/s", "bytes/s", "samples", "heard")
    table = output.table("session", "state", "stream", *numbers, right=numbers)
    no_rate = SessionRate(0, 0)
    fastest_first = sorted(
        snapshot.sessions,
        key=lambda session: (-rates.get(session.stream_session_id, no_rate).samples_per_s, session.identity),
    )
    max_rows = max(console.height - HEADER_LINES, 1) if console.is_terminal else len(fastest_first)
    for session in fastest_first[:max_rows]:
        table.add_row(*_row(session, rates.get(session.stream_session_id), at_ms))
    hidden = len(fastest_first) - max_rows
    return Group(_header(snapshot, at_ms), table, *([f"{hidden:,} more"] if hidden > 0 else []))


def _header(snapshot: TopSnapshot, at_ms: int) -> Text:
    server = snapshot.server
    limit = f" of {output.size(server.max_bytes)}" if server.max_bytes else ""
    counts = ", ".join(f"{count:,} {state}" for state, count in summaries.count_by_state(snapshot.sessions).items())
    waiting = sum(stream.waiting + stream.unacknowledged for stream in snapshot.control_streams)
    oldest = output.duration(summaries.oldest_age_s(snapshot.control_streams, at_ms))
    return Text(
        f"{output.format_time_ms(at_ms)}  {server.product} {server.version}, {output.size(server.used_bytes)}{limit}\n"
        f"{snapshot.nodes} supervisors, {counts}; {waiting:,} messages waiting, the oldest for {oldest}; "
        f"{snapshot.dead_letters:,} dead letters\n"
    )


def _row(session: summaries.SessionSummary, rate: SessionRate | None, at_ms: int) -> tuple[Text | str, ...]:
    return (
        output.escape(session.identity),
        output.state(session.state),
        session.stream,
        output.EMPTY_CELL if rate is None else f"{rate.samples_per_s:,.0f}",
        output.EMPTY_CELL if rate is None else output.size(round(rate.bytes_per_s)),
        output.count(session.samples),
        f"{output.ago(session.heard_ms, at_ms)} ago",
    )
