"""`rta-supervisor tail`: what a session's readers see, decoded, as it comes."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from rta_supervisor.cli import options, output
from rta_supervisor.control import client as control_client
from rta_supervisor.observe import queries
from rta_supervisor.observe import tail as observe_tail
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors, limits, session
from rta_wire.codec import burst, decode
from rta_wire.codec import layout as codec_layout
from rta_wire.session import State
from rta_wire.stream import cursor

SOMETHING_MISSING: Final = 65
_encode: Final = msgspec.json.Encoder().encode


class TailOptions(msgspec.Struct, frozen=True):
    """What to show, and how it travels."""

    channels: frozenset[int]
    """Empty: all."""
    layouts: codec_layout.Plan
    framing: burst.Framing
    as_json: bool


@click.command("tail")
@click.argument("identity")
@click.option("--from-start", is_flag=True, help="Everything that is still in the stream, not only what comes now.")
@click.option(
    "--channel", "channels", multiple=True, type=click.IntRange(0, limits.CHANNEL_ID_MAX), help="Only this one."
)
@click.option(
    "--sample-type",
    "sample_types",
    multiple=True,
    metavar="[CHANNEL=]TYPE",
    help="How samples are stored: double (the default), float, int16 and so on; of one channel or of all.",
)
@click.option("--framing", type=click.Choice([one.value for one in burst.Framing]), default=burst.Framing.RAW.value)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@options.with_settings
def command(  # noqa: PLR0917 - an option of the command line each
    loaded: settings.Settings,
    identity: str,
    from_start: bool,
    channels: tuple[int, ...],
    sample_types: tuple[str, ...],
    framing: str,
    as_json: bool,
) -> int:
    """Follow a session until it is closed: samples, events and states, decoded.

    Rides out an outage of Redis. Says where entries were trimmed before they could be read, and then ends with 65.

    \b
    Examples:  rta-supervisor tail run-17 --channel 1 --channel 2
               rta-supervisor tail run-17 --from-start --json | jq 'select(.kind == "sample") | .value'
               rta-supervisor tail run-17 --sample-type float --sample-type 17=int16
    """
    wanted = TailOptions(frozenset(channels), _layouts(sample_types), burst.Framing(framing), as_json)
    return one_shot.run(loaded, lambda link: _follow(link, loaded, identity, wanted, from_start=from_start))


def _layouts(words: tuple[str, ...]) -> codec_layout.Plan:
    default = codec_layout.Layout()
    by_channel: list[tuple[int, codec_layout.Layout]] = []
    for word in words:
        channel, equals, name = word.rpartition("=")
        try:
            layout = codec_layout.Layout(codec_layout.SampleType(name))
            if equals:
                by_channel.append((int(channel), layout))
            else:
                default = layout
        except ValueError as error:
            known = ", ".join(codec_layout.SampleType)
            raise errors.Usage(reason=f"--sample-type {word}: {error}. Types are {known}.") from error
    return codec_layout.Plan(by_channel, default=default)


async def _follow(
    link: Link, loaded: settings.Settings, identity: str, wanted: TailOptions, *, from_start: bool
) -> int:
    """The exit code."""
    before = await control_client.require_session(queries.RedisQueries(link, loaded), identity)
    if before.state.is_closed and not from_start:
        _warn(f"{identity} is {before.state}: nothing more will come. --from-start shows what is in the stream")
        return 0
    code = 0
    async for one in observe_tail.SessionTail(link, loaded, identity).follow(from_start=from_start):
        if isinstance(one, cursor.StreamEntry):
            try:
                found = decode.entries([one], wanted.layouts, framing=wanted.framing)
                lines = list(_lines(one.id, found, wanted))
                is_over = any(_is_closed(document) for document in found.session_json)
            except (errors.BadBurst, errors.BadSessionJson) as error:
                _warn(str(error))
                code = SOMETHING_MISSING
                continue
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            if is_over:
                break
        elif isinstance(one, observe_tail.CaughtUp):
            sys.stdout.flush()
        elif isinstance(one, observe_tail.Away):
            _warn(f"Redis is away, waiting for it: {one.reason}")
        else:
            code = SOMETHING_MISSING
            _missing(one, as_json=wanted.as_json)
    sys.stdout.flush()
    return code


def _is_closed(document: str) -> bool:
    return State(session.parse(document)["state"]).is_closed


def _missing(one: cursor.Gap | errors.BadBurst, *, as_json: bool) -> None:
    if isinstance(one, errors.BadBurst):
        _warn(str(one))
        return
    if as_json:
        sys.stdout.write(_encode({"kind": "gap", **one._asdict()}).decode() + "\n")
    if one.restarted:
        _warn(f"the stream was removed and made again after {one.after}: what was in it is gone")
        return
    how_many = f"{one.entries:,} entries" if one.exact else f"at most {one.entries:,} entries"
    _warn(f"{how_many} of the stream after {one.after} were trimmed before they could be read")


def _warn(sentence: str) -> None:
    sys.stdout.flush()
    click.echo(f"rta-supervisor: {output.escape(sentence)}", err=True)


def _lines(entry: str, found: decode.DecodedBursts, wanted: TailOptions) -> Iterator[str]:
    things = (one for one in _records(found) if not wanted.channels or one.get("channel", -1) in wanted.channels | {-1})
    for one in things:
        yield _encode({**one, "entry": entry}).decode() if wanted.as_json else _text(one)


def _records(found: decode.DecodedBursts) -> Iterator[dict[str, Any]]:
    for document in found.session_json:
        yield {"kind": "session", "document": msgspec.Raw(document.encode())}
    for start_ns, end_ns in found.time_ranges_ns:
        yield {"kind": "time_range", "start_ns": start_ns, "end_ns": end_ns}
    for some in found.samples.values():
        rows = zip(some.rows().tolist(), some.times_ns.tolist(), some.values.tolist(), strict=True)
        for channel, time_ns, value in rows:
            yield {"kind": "sample", "channel": channel, "time_ns": time_ns, "value": value}
    for event in found.events:
        yield {
            "kind": "event",
            "definition": event.event_definition_id,
            "time_ns": event.timestamp,
            "app": event.app_name,
            "status": event.status_text,
            "raw_data": list(event.raw_data),
        }


def _text(one: dict[str, Any]) -> str:
    kind = one["kind"]
    if kind == "sample":
        return f"{output.format_time_ns(one['time_ns'])}  channel {one['channel']:<6} {one['value']}"
    if kind == "event":
        words = " ".join(output.escape(word) for word in (one["app"], one["status"]) if word)
        at = output.format_time_ns(one["time_ns"])
        return f"{at}  event {one['definition']:<8} {words} {one['raw_data'] or ''}".rstrip()
    if kind == "time_range":
        return f"{output.format_time_ns(one['end_ns'])}  time range from {output.format_time_ns(one['start_ns'])}"
    document = session.parse(bytes(one["document"]))
    return f"{document['identity']} is {document['state']}: {output.escape(str(document['identifier']))}"
