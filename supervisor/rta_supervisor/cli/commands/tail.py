"""`rta-supervisor tail`: follows a session, a stream or a source. `observe.tail` reads, `cli.entry_printer` prints."""

import sys

import click

from rta_supervisor.cli import entry_printer, options, session_lookup
from rta_supervisor.cli.entry_printer import EntryPrinter, TailOptions
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.observe import queries
from rta_supervisor.observe import tail as observe_tail
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import session
from rta_wire.session import State


@click.command("tail")
@options.named_session
@click.option(
    "--stream",
    metavar="NAME",
    help="All sessions of this stream, or of a source over all its days, until it is interrupted.",
)
@click.option(
    "--from-start",
    is_flag=True,
    help="Print everything that is still in the stream, not only what arrives from now on.",
)
@entry_printer.tail_options
@options.with_settings
def command(
    config: settings.Settings,
    names: SessionNames,
    stream: str | None,
    from_start: bool,
    tail_options: TailOptions,
) -> int:
    """Follow a session until it is closed, or a stream: samples, events and states, decoded.

    Waits during an outage of Redis. Says where entries were trimmed before they could be read, and then ends with 65.

    \b
    Examples:  rta-supervisor tail run-17 --channel 1 --channel 2
               rta-supervisor tail run-17 --from-start --json | jq 'select(.kind == "sample") | .value'
               rta-supervisor tail run-17 --sample-type float --sample-type 17=int16
               rta-supervisor tail --stream rocket-engine
    """
    if stream:
        return one_shot.run(
            config, lambda link: _follow_stream(link, config, stream, tail_options, from_start=from_start)
        )
    return one_shot.run(config, lambda link: _follow(link, config, names, tail_options, from_start=from_start))


async def _follow(
    link: Link, config: settings.Settings, names: SessionNames, tail_options: TailOptions, *, from_start: bool
) -> int:
    """Prints a session until it is closed, and gives the exit code."""
    identity = await session_lookup.resolve_one(link, config, names)
    summary = await session_lookup.require_session(queries.RedisQueries(link, config), identity)
    if summary.state.is_closed and not from_start:
        entry_printer.warn(
            f"{identity} is {summary.state}: nothing more will come. --from-start shows what is in the stream"
        )
        return 0
    printer = EntryPrinter(tail_options)
    async for item in observe_tail.SessionTail(link, config, identity).follow(from_start=from_start):
        if any(_is_closed(document) for document in printer.show(item)):
            break
    sys.stdout.flush()
    return printer.code


async def _follow_stream(
    link: Link, config: settings.Settings, stream: str, tail_options: TailOptions, *, from_start: bool
) -> int:
    """Prints all sessions of a stream, or of a source, until it is interrupted."""
    redis_queries = queries.RedisQueries(link, config)
    await session_lookup.require_stream(redis_queries, stream)
    identities = {summary.stream_session_id: summary.identity for summary in await redis_queries.sessions()}
    printer = EntryPrinter(tail_options, identities)
    async for item_stream, item in observe_tail.SourceTail(link, config, stream).follow(from_start=from_start):
        printer.show(item, item_stream)
    return printer.code


def _is_closed(document: str) -> bool:
    return State(session.parse(document)["state"]).is_closed
