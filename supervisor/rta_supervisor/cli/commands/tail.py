"""`rta-supervisor tail`: follows a session, a stream or a source. `observe.tail` reads, `cli.entry_printer` prints."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import click

from rta_supervisor.catalogue import factory
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.cli import entry_printer, options, query_options, session_lookup
from rta_supervisor.cli.entry_printer import EntryPrinter, TailOptions
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.cli.tail_channels import TailChannels
from rta_supervisor.observe import queries
from rta_supervisor.observe import tail as observe_tail
from rta_supervisor.observe.tail_start import TailStart
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors, session
from rta_wire.session import State
from rta_wire.stream import cursor


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
@click.option(
    "--last", type=click.IntRange(1, options.COUNT_MAX), help="Begin with the last entries that there are, so many."
)
@query_options.time_option("--since", "Begin with what was added to the stream since")
@entry_printer.tail_options
@options.with_settings
def command(
    config: settings.Settings,
    names: SessionNames,
    stream: str | None,
    tail_options: TailOptions,
    **begin: Any,
) -> int:
    """Follow a session until it is closed, or a stream: samples, events and states, decoded.

    A session with a configuration shows names, units and texts; without one, numbers of channels and values.

    Waits during an outage of Redis. Says where entries were trimmed before they could be read, and then ends with 65.

    \b
    Examples:  rta-supervisor tail run-17 --channel rpm --channel oil_temp
               rta-supervisor tail run-17 --channel 1 --channel 2
               rta-supervisor tail run-17 --last 100
               rta-supervisor tail run-17 --since 30s
               rta-supervisor tail run-17 --from-start --json | jq 'select(.kind == "sample") | .value'
               rta-supervisor tail run-17 --sample-type float --sample-type 17=int16
               rta-supervisor tail --stream rocket-engine
    """
    start = _parse_start(**begin)
    if stream:
        return one_shot.run(config, lambda link: _follow_stream(link, config, stream, tail_options, start))
    return one_shot.run(config, lambda link: _follow(link, config, names, tail_options, start))


def _parse_start(from_start: bool, last: int | None, since_ns: int | None) -> TailStart:
    if from_start + (last is not None) + (since_ns is not None) > 1:
        raise errors.Usage(reason="Say one of --from-start, --last and --since.")
    since_ms = None if since_ns is None else since_ns // 1_000_000
    return TailStart(is_from_start=from_start, last_entries=last or 0, since_ms=since_ms)


async def _follow(
    link: Link, config: settings.Settings, names: SessionNames, tail_options: TailOptions, start: TailStart
) -> int:
    """Prints a session until it is closed, and gives the exit code."""
    identity = await session_lookup.resolve_one(link, config, names)
    summary = await session_lookup.require_session(queries.RedisQueries(link, config), identity)
    if summary.state.is_closed and start == TailStart():
        entry_printer.warn(
            f"{identity} is {summary.state}: nothing more will come. --from-start and --last show what is in the stream"
        )
        return 0
    printer = EntryPrinter(tail_options)
    async with _config_store(link, config) as store:
        channels = TailChannels(link, config, store, printer)
        known = await channels.describe_session(summary.stream_session_id, identity)
        if known.channel_list.channels or not known.problems:
            tail_options.check_names(known.channel_list, identity)
        async for item in observe_tail.SessionTail(link, config, identity).follow(start):
            documents = printer.show(item)
            await channels.describe_documents(summary.stream_session_id, documents)
            if any(_is_closed(document) for document in documents):
                break
    entry_printer.flush()
    return printer.code


@contextlib.asynccontextmanager
async def _config_store(link: Link, config: settings.Settings) -> AsyncIterator[ConfigStore]:
    """The configurations in Redis, and in the catalogue for a session that outlived them there."""
    catalogue = factory.create_read_only(config)
    try:
        yield ConfigStore(link, config.keys, catalogue)
    finally:
        await catalogue.close()


async def _follow_stream(
    link: Link, config: settings.Settings, stream: str, tail_options: TailOptions, start: TailStart
) -> int:
    """Prints all sessions of a stream, or of a source, until it is interrupted."""
    redis_queries = queries.RedisQueries(link, config)
    await session_lookup.require_stream(redis_queries, stream)
    identities = {summary.stream_session_id: summary.identity for summary in await redis_queries.sessions()}
    printer = EntryPrinter(tail_options, identities)
    async with _config_store(link, config) as store:
        channels = TailChannels(link, config, store, printer)
        async for item_stream, item in observe_tail.SourceTail(link, config, stream).follow(start):
            if isinstance(item, cursor.StreamEntry):
                number = item.stream_session_id
                await channels.describe_first(number, identities.get(number))
                await channels.describe_documents(number, printer.show(item, item_stream))
            else:
                printer.show(item, item_stream)
    return printer.code


def _is_closed(document: str) -> bool:
    return State(session.parse(document)["state"]).is_closed
