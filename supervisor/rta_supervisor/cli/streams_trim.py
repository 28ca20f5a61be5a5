"""`rta-supervisor streams trim`: an operator has the oldest entries of a stream removed."""

from typing import Final

import click
import msgspec

from rta_supervisor.cli import options, output, query_options, session_lookup
from rta_supervisor.control import client as control_client
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

RELEASE: Final = (0, 2)
"""Since which supervisors trim on request."""


class TrimmedStream(msgspec.Struct, frozen=True):
    """One stream in what `streams trim --json` prints."""

    stream: str
    removed_entries: int
    entries: int
    """That are left."""
    kept_because: str
    """Why entries stay that were to be removed; empty where none does."""


@click.command("trim")
@click.argument("name")
@click.option("--keep", type=click.IntRange(1, options.COUNT_MAX), help="All but so many of the newest entries.")
@query_options.time_option("--before", "Entries that were added to the stream before")
@options.timeout
@options.yes
@options.as_json
@options.with_settings
def trim(  # noqa: PLR0917 - an option of the command line each
    config: settings.Settings,
    name: str,
    keep: int | None,
    before_ns: int | None,
    timeout_s: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the oldest entries of a stream, live and compacted; of a source with --before those of all its days.

    Entries that the archive needs stay, and those that an open session has added lately (trim.min_retention_s).

    \b
    Examples:  rta-supervisor streams trim rocket-engine --keep 1000
               rta-supervisor streams trim rocket-engine --before 2h --yes
    """
    if (keep is None) == (before_ns is None):
        raise errors.Usage(reason="Say how much goes: --keep N or --before TIME.")
    streams = one_shot.run(config, lambda link: _check(link, config, name))
    if keep is not None and len(streams) > 1:
        raise errors.Usage(
            reason=f"{name} is divided by days: say --before TIME, or name one of its streams, such as {streams[-1]}."
        )
    extent = _describe_extent(keep, before_ns)
    options.confirm(f"Remove {extent} of {output.escape(name)}? They can't be brought back.", yes=yes)
    requests = [_build_request(stream, keep, before_ns) for stream in streams]
    trimmed = one_shot.run(config, lambda link: _trim_all(link, config, requests, timeout_s=timeout_s))
    if as_json:
        output.print_json({"streams": trimmed})
        return
    for stream in trimmed:
        reason = f", because {stream.kept_because}" if stream.kept_because else ""
        removed, left = output.count(stream.removed_entries), output.count(stream.entries)
        output.console().print(f"{output.escape(stream.stream)}: {removed} entries removed, {left} stay{reason}")


async def _check(link: Link, config: settings.Settings, name: str) -> list[str]:
    """The streams of that name. Raises where there are none, or no supervisor would serve the request."""
    redis_queries = queries.RedisQueries(link, config)
    streams = await session_lookup.require_stream(redis_queries, name)
    if len(streams) > 1:
        used = set(await redis_queries.used_streams())
        streams = [stream for stream in streams if stream in used]
    operator = control_client.OperatorClient(link, config)
    await operator.check_is_served()
    await operator.check_release(RELEASE, "Trimming on request")
    return streams


def _describe_extent(keep: int | None, before_ns: int | None) -> str:
    if keep is not None:
        return f"all but the newest {output.count(keep)} entries"
    return f"the entries from before {output.format_time_ns(before_ns)}"


def _build_request(stream: str, keep: int | None, before_ns: int | None) -> control_pb2.TrimStream:
    if keep is not None:
        return control_pb2.TrimStream(stream=stream, keep_entries=keep)
    return control_pb2.TrimStream(stream=stream, before_ms=max(before_ns or 0, 0) // 1_000_000)


async def _trim_all(
    link: Link, config: settings.Settings, requests: list[control_pb2.TrimStream], *, timeout_s: float
) -> list[TrimmedStream]:
    """Asks for each stream until all is done: a request removes what it can within a few seconds."""
    operator = control_client.OperatorClient(link, config, timeout_s=timeout_s)
    trimmed: list[TrimmedStream] = []
    for request in requests:
        try:
            trimmed.append(await _trim_stream(operator, request))
        except errors.UnknownStream:
            # A day may be removed meanwhile.
            if len(requests) == 1:
                raise
    return trimmed


async def _trim_stream(operator: control_client.OperatorClient, request: control_pb2.TrimStream) -> TrimmedStream:
    removed = 0
    while True:
        request.request_id = messages.new_request_id()
        reply = await operator.trim(request)
        removed += reply.removed_entries
        if not reply.is_partial or not reply.removed_entries:
            return TrimmedStream(request.stream, removed, reply.entries, reply.kept_because)
