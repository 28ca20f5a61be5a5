"""Prints decoded entries of streams as text or JSON, and what is missing of them."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from rta_supervisor.cli import decoded_records, output
from rta_supervisor.observe import tail as observe_tail
from rta_wire import errors, limits, quoting, session
from rta_wire.channels import model
from rta_wire.codec import burst, decode
from rta_wire.codec import layout as codec_layout
from rta_wire.stream import cursor

DATA_MISSING: Final = 65
_encode: Final = msgspec.json.Encoder().encode


class TailOptions(msgspec.Struct, frozen=True):
    """Which channels to print, how samples are stored in the stream, and whether to print JSON."""

    channels: frozenset[str]
    """Numbers or names; empty: all."""
    sample_types: tuple[tuple[int | None, codec_layout.Layout], ...]
    """Layouts of channels, None for all of which nothing else is known."""
    framing: burst.Framing
    as_json: bool

    def has(self, channel_id: int, name: str) -> bool:
        """Whether samples of a channel are printed."""
        return not self.channels or str(channel_id) in self.channels or name in self.channels

    def layouts(self, channels: model.ChannelList) -> codec_layout.Plan:
        """How samples are stored: as the options say, else as the configuration of the session does."""
        by_channel = {channel.id: channel.layout for channel in channels.channels}
        by_channel |= {channel: layout for channel, layout in self.sample_types if channel is not None}
        default = next((layout for channel, layout in self.sample_types[::-1] if channel is None), None)
        return codec_layout.Plan(by_channel.items(), default=default)

    def check_names(self, channels: model.ChannelList, where: str) -> None:
        """Refuse a name that no channel has. `where`: whose channels they are."""
        for name in sorted(self.channels):
            if name.isdecimal() or name in channels.by_name:
                continue
            if not channels.channels:
                reason = f"{where} has no configuration: its channels have numbers and no names"
                raise errors.Usage(reason=f"--channel {name}: {reason}.")
            nearest = output.nearest(name, channels.by_name)
            raise errors.UnknownChannel(f"There is no channel {name!r} in session {where!r}{nearest}.")


def tail_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command `tail_options`."""

    @click.option(
        "--channel",
        "channels",
        multiple=True,
        metavar="NUMBER|NAME",
        callback=_check_channels,
        help="Only samples of this channel; may be repeated.",
    )
    @click.option(
        "--sample-type",
        "sample_types",
        multiple=True,
        metavar="[CHANNEL=]TYPE",
        help="How samples are stored: double (the default), float, int16 and so on; of one channel or of all. A "
        "session with a configuration needs none.",
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
        channels: tuple[str, ...],
        sample_types: tuple[str, ...],
        framing: str,
        as_json: bool,
        **rest: Any,
    ) -> Any:
        chosen = TailOptions(frozenset(channels), _parse_layouts(sample_types), burst.Framing(framing), as_json)
        return command(*arguments, tail_options=chosen, **rest)

    return wrapped


def _check_channels(_context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if text.isdecimal() and model.parse_id(text) is None:
            number = quoting.cut(text)
            raise click.BadParameter(f"{number} is not in the range 0<=x<={limits.CHANNEL_ID_MAX}.", param=option)
    return texts


def _parse_layouts(texts: tuple[str, ...]) -> tuple[tuple[int | None, codec_layout.Layout], ...]:
    """Layouts of samples from `TYPE` for all channels and `CHANNEL=TYPE` for one."""
    layouts: list[tuple[int | None, codec_layout.Layout]] = []
    for text in texts:
        channel, equals, type_name = text.rpartition("=")
        try:
            layout = codec_layout.Layout(codec_layout.SampleType(type_name))
            layouts.append((int(channel) if equals else None, layout))
        except ValueError as error:
            type_names = ", ".join(codec_layout.SampleType)
            raise errors.Usage(reason=f"--sample-type {text}: {error}. Types are {type_names}.") from error
    return tuple(layouts)


class EntryPrinter:
    """Prints entries, and what is missing of them. Keeps the exit code."""

    def __init__(self, chosen: TailOptions, identities: dict[int, str] | None = None) -> None:
        """`identities`: the names of sessions by their numbers, where each line says of which session it is."""
        self.code = 0
        self._options = chosen
        self._identities = identities
        self._channels: dict[int, model.ChannelList] = {}
        self._layouts: dict[int, codec_layout.Plan] = {}
        self._other_layouts = chosen.layouts(model.EMPTY)
        if chosen.as_json:
            output.utf8_stdout()

    def describe(self, stream_session_id: int, channels: model.ChannelList) -> None:
        """Note what the channels of a session are."""
        self._channels[stream_session_id] = channels
        self._layouts[stream_session_id] = self._options.layouts(channels)

    def show(self, item: observe_tail.TailItem, stream: str = "") -> list[str]:
        """Prints an item of a stream. Gives the Session JSON in it."""
        if isinstance(item, cursor.StreamEntry):
            return self._show_entry(item, stream)
        if isinstance(item, observe_tail.CaughtUp):
            flush()
        elif isinstance(item, observe_tail.RedisAway):
            warn(f"Redis is away, waiting for it: {item.reason}")
        else:
            self.code = DATA_MISSING
            _report_missing(item, stream, as_json=self._options.as_json)
        return []

    def _show_entry(self, entry: cursor.StreamEntry, stream: str) -> list[str]:
        try:
            number = entry.stream_session_id
            layouts = self._layouts.get(number, self._other_layouts)
            bursts = decode.entries([entry], layouts, framing=self._options.framing)
            for document in bursts.session_json:
                session.parse(document)
            context = {} if self._identities is None else self._context(entry, stream, bursts.session_json)
            channels = self._channels.get(number, model.EMPTY)
            lines = list(_lines(entry.id, bursts, self._options, context, channels))
        except (errors.BadBurst, errors.BadSessionJson) as error:
            warn(str(error))
            self.code = DATA_MISSING
            return []
        _write("".join(f"{line}\n" for line in lines))
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
        _write(_encode(gap).decode() + "\n")
    which = f"stream {stream}" if stream else "the stream"
    if missing.restarted:
        warn(f"{which} was removed and made again after {missing.after}: what was in it is gone")
        return
    how_many = f"{missing.entries:,} entries" if missing.exact else f"at most {missing.entries:,} entries"
    warn(f"{how_many} of {which} after {missing.after} were trimmed before they could be read")


def warn(sentence: str) -> None:
    """Prints a sentence on standard error, after what was printed before it."""
    flush()
    click.echo(f"rta-supervisor: {output.escape(sentence)}", err=True)


def flush() -> None:
    """Have what was printed arrive where it goes to."""
    with output.writing():
        sys.stdout.flush()


def _write(text: str) -> None:
    with output.writing():
        sys.stdout.write(text)


def _lines(
    entry_id: str,
    bursts: decode.DecodedBursts,
    chosen: TailOptions,
    context: dict[str, str],
    channels: model.ChannelList,
) -> Iterator[str]:
    """What to print of one entry: its samples of the chosen channels, and everything that has no channel."""
    prefix = f"{output.escape(context['session'])}  " if context else ""
    for record in decoded_records.records(bursts, channels):
        if "channel" in record and not chosen.has(record["channel"], record.get("name", "")):
            continue
        if chosen.as_json:
            yield _encode({**record, **context, "entry": entry_id}).decode()
        else:
            yield prefix + decoded_records.format_record(record)
