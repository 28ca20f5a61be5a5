"""Prints decoded entries of streams as text or JSON, and what is missing of them."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from rta_supervisor.cli import output
from rta_supervisor.observe import tail as observe_tail
from rta_wire import errors, limits, session
from rta_wire.codec import burst, decode
from rta_wire.codec import layout as codec_layout
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


def tail_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `tail_options`."""

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
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        channels: tuple[int, ...],
        sample_types: tuple[str, ...],
        framing: str,
        as_json: bool,
        **rest: Any,
    ) -> Any:
        chosen = TailOptions(frozenset(channels), _parse_layouts(sample_types), burst.Framing(framing), as_json)
        return command(*arguments, tail_options=chosen, **rest)

    return wrapped


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


class EntryPrinter:
    """Prints entries, and what is missing of them. Keeps the exit code."""

    def __init__(self, chosen: TailOptions, identities: dict[int, str] | None = None) -> None:
        """`identities`: the names of sessions by their numbers, where each line says of which session it is."""
        self.code = 0
        self._options = chosen
        self._identities = identities
        if chosen.as_json:
            output.utf8_stdout()

    def show(self, item: observe_tail.TailItem, stream: str = "") -> list[str]:
        """Prints an item of a stream. Gives the Session JSON in it."""
        if isinstance(item, cursor.StreamEntry):
            return self._show_entry(item, stream)
        if isinstance(item, observe_tail.CaughtUp):
            sys.stdout.flush()
        elif isinstance(item, observe_tail.RedisAway):
            warn(f"Redis is away, waiting for it: {item.reason}")
        else:
            self.code = DATA_MISSING
            _report_missing(item, stream, as_json=self._options.as_json)
        return []

    def _show_entry(self, entry: cursor.StreamEntry, stream: str) -> list[str]:
        try:
            bursts = decode.entries([entry], self._options.layouts, framing=self._options.framing)
            for document in bursts.session_json:
                session.parse(document)
            context = {} if self._identities is None else self._context(entry, stream, bursts.session_json)
            lines = list(_lines(entry.id, bursts, self._options, context))
        except (errors.BadBurst, errors.BadSessionJson) as error:
            warn(str(error))
            self.code = DATA_MISSING
            return []
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return list(bursts.session_json)

    def _context(self, entry: cursor.StreamEntry, stream: str, documents: Sequence[str]) -> dict[str, str]:
        """Of which session and stream an entry is. A session without a known name is called by its number."""
        assert self._identities is not None
        for document in documents:
            self._identities[entry.stream_session_id] = session.identity_in(document)
        number = entry.stream_session_id
        return {"session": self._identities.get(number, str(number)), "stream": stream}


def _report_missing(missing: cursor.Gap | errors.BadBurst, stream: str, *, as_json: bool) -> None:
    if isinstance(missing, errors.BadBurst):
        warn(str(missing))
        return
    if as_json:
        gap = {"kind": "gap", **missing._asdict(), **({"stream": stream} if stream else {})}
        sys.stdout.write(_encode(gap).decode() + "\n")
    which = f"stream {stream}" if stream else "the stream"
    if missing.restarted:
        warn(f"{which} was removed and made again after {missing.after}: what was in it is gone")
        return
    how_many = f"{missing.entries:,} entries" if missing.exact else f"at most {missing.entries:,} entries"
    warn(f"{how_many} of {which} after {missing.after} were trimmed before they could be read")


def warn(sentence: str) -> None:
    """Prints a sentence on standard error, after what was printed before it."""
    sys.stdout.flush()
    click.echo(f"rta-supervisor: {output.escape(sentence)}", err=True)


def _lines(entry_id: str, bursts: decode.DecodedBursts, chosen: TailOptions, context: dict[str, str]) -> Iterator[str]:
    """What to print of one entry: its samples of the chosen channels, and everything that has no channel."""
    prefix = f"{output.escape(context['session'])}  " if context else ""
    for record in _records(bursts):
        if chosen.channels and "channel" in record and record["channel"] not in chosen.channels:
            continue
        if chosen.as_json:
            yield _encode({**record, **context, "entry": entry_id}).decode()
        else:
            yield prefix + _format_record(record)


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
