"""Lists of channels as a job makes them: of the columns of a frame, or from a file."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from rta_wire import errors, limits
from rta_wire.channels import config_json, files, growth, model, viewer_warnings
from rta_wire.channels.conversions import TextConversion
from rta_wire.codec.layout import SampleType
from rta_writers.options import arguments, parse

log: Final = logging.getLogger("rta_writers")

TIME: Final = "time"
SESSION: Final = "session"
STREAM: Final = "stream"
LONG_COLUMNS: Final = frozenset({"channel", "value"})

_TYPES: Final = {
    "tinyint": SampleType.INT8,
    "smallint": SampleType.INT16,
    "int": SampleType.INT32,
    "bigint": SampleType.INT64,
    "float": SampleType.FLOAT,
    "double": SampleType.DOUBLE,
    "boolean": SampleType.UINT8,
    "decimal": SampleType.DOUBLE,
    **{sample_type.value: sample_type for sample_type in SampleType},
    "bool": SampleType.UINT8,
    "halffloat": SampleType.FLOAT,
    **{f"decimal{bits}": SampleType.DOUBLE for bits in (32, 64, 128, 256)},
}
"""Sample types by the names that Spark and Arrow have for the types of columns."""

_BOOLEANS: Final = frozenset({"boolean", "bool"})
_BOOLEAN_TEXTS: Final = TextConversion((0.0, 1.0), ("false", "true"))
_TEXTS: Final = frozenset({"string", "varchar", "char", "large_string", "string_view"})


class Channels:
    """What the channels of a session are: `SessionClient.open` publishes it, and writers and readers go by it.

    A list that was made of a frame gets the ids that the session or its stream has already. One from a file has the ids
    of the file.
    """

    def __init__(
        self, channel_list: model.ChannelList, *, has_own_ids: bool = True, given: model.ChannelList | None = None
    ) -> None:
        """`has_own_ids`: whether the ids are meant as they are, and not only to be told apart. `given`: those of its
        channels whose ids and all else are meant as they are in any case."""
        if not isinstance(channel_list, model.ChannelList):
            raise arguments.refuse("channel_list", channel_list, "a ChannelList of rta_wire.channels.model")
        self.list = channel_list
        self.has_own_ids = has_own_ids
        self.given = channel_list if has_own_ids else given
        self.data = config_json.encode(channel_list)
        """The configuration JSON."""
        self.identifier = config_json.identifier(self.data)

    @classmethod
    def of(
        cls,
        frame: Any,
        *,
        application: str = model.DEFAULT_APPLICATION,
        known: "Channels | None" = None,
        ignore: Iterable[str] = (),
    ) -> "Channels":
        """A channel for each column of a frame in wide form, of Spark or Arrow, or of its schema.

        `time`, `session`, a text `stream` beside it and what is in `ignore` are no channels. `known` has the ids, units
        and all else of channels that are known already, from a file or of a session: these go before the stream's.
        """
        ignored = frozenset(arguments.text("ignore", name) for name in arguments.iterable("ignore", ignore))
        columns = [(name, type_name) for name, type_name in _columns(frame) if name not in ignored]
        if {name for name, _ in columns} >= LONG_COLUMNS:
            raise errors.BadChannels(
                where="the frame",
                reason="it is in long form, with its channels in rows: list them in a file for Channels.load",
            )
        channels = [_channel(name, column_type) for name, column_type in columns]
        listed = model.build(_numbered(channels), application=arguments.text("application", application))
        if known is None:
            return cls(listed, has_own_ids=False)
        listed = growth.extend(check(known, name="known").list, listed, keeps_known=True)
        return cls(listed, has_own_ids=False, given=known.given)

    @classmethod
    def load(cls, path: "str | Path") -> "Channels":
        """The list in a file: TOML, JSON or CSV by its suffix. An error names the line."""
        file = arguments.path("path", path)
        name = str(file)
        form = files.form_of(name)
        try:
            data = file.read_bytes()
        except (OSError, ValueError) as error:
            raise errors.BadChannels(where=name, reason=f"it can't be read: {error}") from error
        return cls(files.parse(files.decode(data, name=name), form, name=name))

    def save(self, path: "str | Path") -> None:
        """Write the list to a file, for people to fill in units, ranges and descriptions. The suffix is the form."""
        file = arguments.path("path", path)
        name = str(file)
        text = files.dump(self.list, files.form_of(name))
        try:
            file.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:
            raise errors.BadChannels(where=name, reason=f"it can't be written: {error}") from error

    def extended(self, known: model.ChannelList) -> "Channels":
        """What a session has that was bound to `known` before: its channels with their ids, and the new ones."""
        if not isinstance(known, model.ChannelList):
            raise arguments.refuse("known", known, "a ChannelList of rta_wire.channels.model")
        grown = known if self.given is None else growth.extend(known, self.given, keeps_known=False)
        if not self.has_own_ids:
            grown = growth.extend(grown, self.list, keeps_known=True)
        return self if grown == self.list else Channels(grown)

    def warnings(self) -> list[str]:
        """What viewers can't show, a sentence each."""
        return viewer_warnings.warnings(self.list)

    def __getitem__(self, name: str | int) -> model.Channel:
        """A channel by its name or id."""
        if not isinstance(name, str):
            name = arguments.whole_number("name", name, 0, limits.CHANNEL_ID_MAX)
        channel = self.list.by_name.get(name) if isinstance(name, str) else self.list.by_id.get(name)
        if channel is None:
            nearest = parse.suggest_channel(str(name), self.list)
            raise errors.UnknownChannel(channel=name, config=self.identifier, nearest=nearest)
        return channel

    def __iter__(self) -> Iterator[model.Channel]:
        return iter(self.list.channels)

    def __len__(self) -> int:
        return len(self.list.channels)

    def __repr__(self) -> str:
        names = ", ".join(channel.name for channel in self.list.channels[:5])
        more = ", ..." if len(self) > 5 else ""
        return f"Channels({len(self)} channels of {self.list.application!r}: {names}{more})"


def check(channels: Any, *, name: str = "channels") -> Channels:
    """The argument of a call, if it is a list of channels."""
    if not isinstance(channels, Channels):
        raise arguments.refuse(name, channels, "Channels, made by Channels.of or Channels.load")
    return channels


def log_warnings(sentences: list[str]) -> None:
    """Log what viewers can't show of a configuration that was published: all of it, in one record."""
    if sentences:
        log.warning("What viewers can't show of the channels:\n%s", "\n".join(sentences))


def _columns(frame: Any) -> Iterator[tuple[str, str]]:
    """Names of columns that can be channels, and the names of their types."""
    schema = getattr(frame, "schema", frame)
    fields = list(schema) if hasattr(schema, "names") else None
    if fields is None or not all(hasattr(field, "name") for field in fields):
        raise arguments.refuse("frame", frame, "a frame of Spark or a table of pyarrow, or the schema of one")
    names = [field.name for field in fields]
    for field in fields:
        type_name = _type_name(field)
        is_stream = field.name == STREAM and SESSION in names and type_name in _TEXTS
        if field.name not in (TIME, SESSION) and not is_stream:
            yield field.name, type_name


def _type_name(field: Any) -> str:
    data_type = getattr(field, "dataType", None)
    text: str = str(field.type) if data_type is None else data_type.simpleString()
    return text.partition("(")[0].partition("<")[0].partition("[")[0].partition(" collate ")[0]


def _channel(name: str, type_name: str) -> model.Channel:
    if type_name in _BOOLEANS:
        return model.Channel(id=0, name=name, type=SampleType.UINT8, min=0, max=1, conversion=_BOOLEAN_TEXTS)
    if type_name in _TYPES:
        return model.Channel(id=0, name=name, type=_TYPES[type_name])
    where = f"column {parse.quote(name)}"
    if type_name in _TEXTS:
        reason = "a text is no sample: write numbers, and name them by a text conversion; or write events; or drop it"
    elif type_name.startswith("timestamp"):
        reason = (
            "a timestamp is no sample: cast it to a number, drop it, or call it 'time' if it is the time of the row"
        )
    else:
        reason = f"a column of type {type_name} can't be a channel: cast it to a number, or drop it"
    raise errors.BadChannels(where=where, reason=reason)


def _numbered(channels: list[model.Channel]) -> Iterator[model.Channel]:
    """Channels with ids from 1 on. One whose name is a number has that as its id."""
    taken = {model.parse_id(channel.name) for channel in channels}
    next_id = 1
    for channel in channels:
        if (own_id := model.parse_id(channel.name)) is not None:
            yield msgspec.structs.replace(channel, id=own_id)
            continue
        while next_id in taken:
            next_id += 1
        yield msgspec.structs.replace(channel, id=next_id)
        next_id += 1
