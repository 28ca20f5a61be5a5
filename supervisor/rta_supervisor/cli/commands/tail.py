"""`rta-supervisor tail`: prints the entries of one session, decoded, as they arrive. `observe.tail` follows it."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from rta_supervisor.cli import options, output, session_lookup
from rta_supervisor.cli.options import SessionNames
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

DATA_MISSING: Final = 65
_encode: Final = msgspec.json.Encoder().encode


class TailOptions(msgspec.Struct, frozen=True):
    """Which channels to print, how samples are stored in the stream, and whether to print JSON."""

    channels: frozenset[int]
    """Empty: all."""
    layouts: codec_layout.Plan
    framing: burst.Framing
    as_json: bool


@click.command("tail")
@options.named_session
@click.option(
    "--from-start",
    is_flag=True,
    help="Print everything that is still in the stream, not only what arrives from now on.",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    type=click.IntRange(0, limits.CHANNEL_ID_MAX),
    help="Only samples of this channel; may be repeated.",
)
@click.option(
    "--sample-type",
    "sample_types",
    multiple=True,
    metavar="[CHANNEL=]TYPE",
    help="How samples are stored: double (the default), float, int16 and so on; of one channel or of all.",
)
@click.option(
    "--framing",
    type=click.Choice([framing.value for framing in burst.Framing]),
    default=burst.Framing.RAW.value,
    show_default=True,
    help="How bursts are compressed: as an LZ4 block alone, or after its size.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@options.with_settings
def command(  # noqa: PLR0917 - an option of the command line each
    config: settings.Settings,
    names: SessionNames,
    from_start: bool,
    channels: tuple[int, ...],
    sample_types: tuple[str, ...],
    framing: str,
    as_json: bool,
) -> int:
    """Follow a session until it is closed: samples, events and states, decoded.

    Waits during an outage of Redis. Says where entries were trimmed before they could be read, and then ends with 65.

    \b
    Examples:  rta-supervisor tail run-17 --channel 1 --channel 2
               rta-supervisor tail run-17 --from-start --json | jq 'select(.kind == "sample") | .value'
               rta-supervisor tail run-17 --sample-type float --sample-type 17=int16
    """
    tail_options = TailOptions(frozenset(channels), _parse_layouts(sample_types), burst.Framing(framing), as_json)
    return one_shot.run(config, lambda link: _follow(link, config, names, tail_options, from_start=from_start))


def _parse_layouts(texts: tuple[str, ...]) -> codec_layout.Plan:
    """Layouts of samples from `TYPE` for all channels and `CHANNEL=TYPE` for one."""
    default = codec_layout.Layout()
    by_channel: list[tuple[int, codec_layout.Layout]] = []
    for text in texts:
        channel, equals, type_name = text.rpartition("=")
        try:
            layout = codec_layout.Layout(codec_layout.SampleType(type_name))
            if equals:
                by_channel.append((int(channel), layout))
            else:
                default = layout
        except ValueError as error:
            type_names = ", ".join(codec_layout.SampleType)
            raise errors.Usage(reason=f"--sample-type {text}: {error}. Types are {type_names}.") from error
    return codec_layout.Plan(by_channel, default=default)


async def _follow(
    link: Link, config: settings.Settings, names: SessionNames, tail_options: TailOptions, *, from_start: bool
) -> int:
    """Prints a session until it is closed, and gives the exit code."""
    identity = await session_lookup.resolve_one(link, config, names)
    summary = await session_lookup.require_session(queries.RedisQueries(link, config), identity)
    if summary.state.is_closed and not from_start:
        _warn(f"{identity} is {summary.state}: nothing more will come. --from-start shows what is in the stream")
        return 0
    code = 0
    if tail_options.as_json:
        output.utf8_stdout()
    async for item in observe_tail.SessionTail(link, config, identity).follow(from_start=from_start):
        if isinstance(item, cursor.StreamEntry):
            try:
                bursts = decode.entries([item], tail_options.layouts, framing=tail_options.framing)
                lines = list(_lines(item.id, bursts, tail_options))
                is_last = any(_is_closed(document) for document in bursts.session_json)
            except (errors.BadBurst, errors.BadSessionJson) as error:
                _warn(str(error))
                code = DATA_MISSING
                continue
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            if is_last:
                break
        elif isinstance(item, observe_tail.CaughtUp):
            sys.stdout.flush()
        elif isinstance(item, observe_tail.RedisAway):
            _warn(f"Redis is away, waiting for it: {item.reason}")
        else:
            code = DATA_MISSING
            _report_missing(item, as_json=tail_options.as_json)
    sys.stdout.flush()
    return code


def _is_closed(document: str) -> bool:
    return State(session.parse(document)["state"]).is_closed


def _report_missing(missing: cursor.Gap | errors.BadBurst, *, as_json: bool) -> None:
    if isinstance(missing, errors.BadBurst):
        _warn(str(missing))
        return
    if as_json:
        sys.stdout.write(_encode({"kind": "gap", **missing._asdict()}).decode() + "\n")
    if missing.restarted:
        _warn(f"the stream was removed and made again after {missing.after}: what was in it is gone")
        return
    how_many = f"{missing.entries:,} entries" if missing.exact else f"at most {missing.entries:,} entries"
    _warn(f"{how_many} of the stream after {missing.after} were trimmed before they could be read")


def _warn(sentence: str) -> None:
    sys.stdout.flush()
    click.echo(f"rta-supervisor: {output.escape(sentence)}", err=True)


def _lines(entry_id: str, bursts: decode.DecodedBursts, tail_options: TailOptions) -> Iterator[str]:
    """What to print of one entry: its samples of the chosen channels, and everything that has no channel."""
    for record in _records(bursts):
        if tail_options.channels and "channel" in record and record["channel"] not in tail_options.channels:
            continue
        yield _encode({**record, "entry": entry_id}).decode() if tail_options.as_json else _format_record(record)


def _records(bursts: decode.DecodedBursts) -> Iterator[dict[str, Any]]:
    for document in bursts.session_json:
        yield {"kind": "session", "document": msgspec.Raw(document.encode())}
    for start_ns, end_ns in bursts.time_ranges_ns:
        yield {"kind": "time_range", "start_ns": start_ns, "end_ns": end_ns}
    for columns in bursts.samples.values():
        samples = zip(columns.rows().tolist(), columns.times_ns.tolist(), columns.values.tolist(), strict=True)
        for channel, time_ns, value in samples:
            yield {"kind": "sample", "channel": channel, "time_ns": time_ns, "value": value}
    for event in bursts.events:
        yield {
            "kind": "event",
            "definition": event.event_definition_id,
            "time_ns": event.timestamp,
            "app": event.app_name,
            "status": event.status_text,
            "raw_data": list(event.raw_data),
        }


def _format_record(record: dict[str, Any]) -> str:
    kind = record["kind"]
    if kind == "sample":
        return f"{output.format_time_ns(record['time_ns'])}  channel {record['channel']:<6} {record['value']}"
    if kind == "event":
        time = output.format_time_ns(record["time_ns"])
        texts = " ".join(output.escape(text) for text in (record["app"], record["status"]) if text)
        return f"{time}  event {record['definition']:<8} {texts} {record['raw_data'] or ''}".rstrip()
    if kind == "time_range":
        start, end = output.format_time_ns(record["start_ns"]), output.format_time_ns(record["end_ns"])
        return f"{end}  time range from {start}"
    document = session.parse(bytes(record["document"]))
    return f"{output.escape(document['identity'])} is {document['state']}: {output.escape(document['identifier'])}"
