"""Plain values that people wrote, to channels and events: looked at one by one, so that every mistake is found.

A mistake has the path to the value that is wrong, so that the reader of a file can say on which line it is.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rta_wire import errors, limits, quoting
from rta_wire.channels import mistakes, model, plain_errors
from rta_wire.channels.conversions import Conversion, RationalConversion, TableConversion, TextConversion
from rta_wire.channels.plain import PlainChannel, PlainConversion, PlainEvent, PlainList
from rta_wire.channels.plain_errors import Path
from rta_wire.codec.layout import Kind, SampleType

Choice = TypeVar("Choice", bound=enum.StrEnum)
Item = TypeVar("Item", bound=msgspec.Struct)

CHANNELS: Final = "channels"
EVENTS: Final = "events"

_REQUIRED: Final[dict[type, dict[str, Any]]] = {PlainChannel: {"name": ""}, PlainEvent: {"id": 0, "text": ""}}
"""What stands for a required field that is missing or wrong, while the others are looked at."""


class PlainMistake(msgspec.Struct, frozen=True):
    """What is wrong with a plain value, and the path to it."""

    path: Path
    reason: str
    where: str = ""
    """The channel or event; empty where it is none."""


class ParsedList(msgspec.Struct, frozen=True):
    """What plain values say."""

    channel_list: model.ChannelList | None
    """None where there are mistakes."""
    mistakes: list[PlainMistake]
    right_channels: list[model.Channel]
    """The channels without a mistake."""


def parse(values: Any, *, is_text: bool = False) -> ParsedList:
    """A list of channels, or all that is wrong with it. `is_text`: numbers may be texts, as in a spreadsheet."""
    if not isinstance(values, Mapping):
        return ParsedList(None, [PlainMistake((), f"it has to be a table with {CHANNELS!r} in it")], [])
    parser = _PlainParser(is_strict=not is_text)
    application = parser.application({name: values[name] for name in values if name not in (CHANNELS, EVENTS)})
    channels = parser.channels(values.get(CHANNELS, []))
    events = parser.events(values.get(EVENTS, []))
    given = model.ChannelList(
        application=application.application,
        description=application.description,
        channels=tuple(channels.values()),
        events=tuple(events.values()),
    )
    parser.check(given)
    if parser.found:
        wrong = {mistake.path[1] for mistake in parser.found if mistake.path[:1] == (CHANNELS,) and mistake.path[1:]}
        return ParsedList(None, parser.found, [channels[place] for place in channels if place not in wrong])
    built = model.build(given.channels, given.events, application=given.application, description=given.description)
    return ParsedList(built, [], list(built.channels))


def from_structs(channels: Iterable[PlainChannel]) -> list[model.Channel]:
    """Channels that a program wrote. Raises `BadChannels`."""
    parser = _PlainParser(is_strict=True)
    built = parser.checked_channels({place: (channel, set()) for place, channel in enumerate(channels)})
    for mistake in parser.found:
        raise errors.BadChannels(where=mistake.where or "the channels", reason=mistake.reason)
    return list(built.values())


class _PlainParser:
    """Has in `found` what is wrong with the values that were parsed."""

    def __init__(self, *, is_strict: bool) -> None:
        self.found: list[PlainMistake] = []
        self._is_strict = is_strict

    def application(self, values: Mapping[str, Any]) -> PlainList:
        """All but the channels and events."""
        plain, _ = self._convert(PlainList, values, (), "")
        return plain or PlainList()

    def channels(self, values: Any) -> dict[int, model.Channel]:
        """Channels by their places in a list. What is wrong with one of them is as it is by default."""
        return self.checked_channels(self._items(PlainChannel, values, CHANNELS))

    def checked_channels(self, items: Mapping[int, "tuple[PlainChannel, set[str]]"]) -> dict[int, model.Channel]:
        """The same for channels that were read already, with the fields of each that are wrong."""
        numbered = _with_ids({place: plain for place, (plain, _) in items.items()})
        channels = {place: self._channel(plain, place, items[place][1]) for place, plain in numbered.items()}
        # A name or an id that could not be read is not the same as another one.
        places = [place for place, (_, wrong) in items.items() if not wrong & {"name", "id"}]
        for number, (field, reason) in mistakes.repeated_channels([channels[place] for place in places]):
            place = places[number]
            self._add(
                (CHANNELS, place, field), reason, mistakes.channel_label(channels[place].name, channels[place].id)
            )
        return channels

    def events(self, values: Any) -> dict[int, model.EventDefinition]:
        """Definitions of events by their places in a list."""
        items = self._items(PlainEvent, values, EVENTS)
        events = {place: self._event(plain, place, wrong) for place, (plain, wrong) in items.items()}
        places = [place for place, (_, wrong) in items.items() if "id" not in wrong]
        for number, (field, reason) in mistakes.repeated_events([events[place] for place in places]):
            place = places[number]
            self._add((EVENTS, place, field), reason, mistakes.event_label(events[place].id))
        return events

    def check(self, channel_list: model.ChannelList) -> None:
        """Find what is wrong with a list as a whole."""
        label = f"application {quoting.cut(channel_list.application, mistakes.NAME_MAX_CHARS)!r}"
        for field, reason in mistakes.of_application(channel_list):
            self._add((field,), reason, label)

    def _add(self, path: Path, reason: str, where: str) -> None:
        self.found.append(PlainMistake(path, reason, where))

    def _items(self, kind: type[Item], values: Any, name: str) -> dict[int, tuple[Item, set[str]]]:
        """The channels or events of a list, and which fields of each are wrong."""
        if not isinstance(values, list):
            hint = f". In TOML each of them begins with [[{name}]]" if isinstance(values, Mapping) else ""
            self._add((name,), f"its {name} are no list{hint}", "")
            return {}
        what = name.removesuffix("s")
        converted = {
            place: self._convert(kind, item, (name, place), plain_errors.label(item, what, place))
            for place, item in enumerate(values)
        }
        return {place: (plain, wrong) for place, (plain, wrong) in converted.items() if plain is not None}

    def _convert(self, kind: type[Item], values: Any, path: Path, where: str) -> tuple[Item | None, set[str]]:
        """Values as a struct, and the fields that are wrong: each is left out, so that the others are looked at."""
        wrong: set[str] = set()
        required = _REQUIRED.get(kind, {})
        while True:
            try:
                return msgspec.convert(values, kind, strict=self._is_strict), wrong
            except msgspec.ValidationError as error:
                problem = plain_errors.explain(error, values, kind)
                self._add((*path, *problem.path), problem.reason, where)
                field = problem.field
                if not isinstance(values, Mapping) or field in wrong or field not in {*values, *required}:
                    return None, wrong
                wrong.add(field)
                values = {name: value for name, value in values.items() if name != field}
                if field in required:
                    values[field] = required[field]

    def _channel(self, plain: PlainChannel, place: int, wrong: set[str]) -> model.Channel:
        assert plain.id is not None
        label = mistakes.channel_label(plain.name, plain.id)
        if "name" in wrong:
            label = plain_errors.label(None, "channel", place)
        path = (CHANNELS, place)
        conversion, problem, inner = _conversion(plain.conversion)
        if problem:
            self._add((*path, "conversion", *inner), problem, label)
            wrong.add("conversion")
        channel = model.Channel(
            id=plain.id,
            name=plain.name,
            unit=plain.unit,
            description=plain.description,
            type=self._member(SampleType, plain.type, (*path, "type"), label, wrong) or SampleType.DOUBLE,
            kind=self._member(Kind, plain.kind, (*path, "kind"), label, wrong) or Kind.TIMESTAMPED,
            interval_ns=plain.interval_ns,
            min=plain.min,
            max=plain.max,
            warn_min=plain.warn_min,
            warn_max=plain.warn_max,
            group=tuple(plain.group.split(model.GROUP_SEPARATOR)) if plain.group else (),
            conversion=conversion,
        )
        for field, reason in mistakes.of_channel(channel):
            if field not in wrong and not (field == "interval_ns" and "kind" in wrong):
                self._add((*path, field), reason, label)
        return channel

    def _event(self, plain: PlainEvent, place: int, wrong: set[str]) -> model.EventDefinition:
        label = mistakes.event_label(plain.id)
        priority = self._member(model.Priority, plain.priority, (EVENTS, place, "priority"), label, wrong)
        event = model.EventDefinition(id=plain.id, text=plain.text, priority=priority or model.Priority.LOW)
        for field, reason in mistakes.of_event(event):
            if field not in wrong:
                self._add((EVENTS, place, field), reason, label)
        return event

    def _member(self, choices: type[Choice], value: str, path: Path, where: str, wrong: set[str]) -> Choice | None:
        try:
            return choices(value)
        except ValueError:
            field = str(path[-1])
            wrong.add(field)
            self._add(path, f"its {field} is {plain_errors.shown(value)}, not one of {', '.join(choices)}", where)
            return None


def _with_ids(channels: Mapping[int, PlainChannel]) -> dict[int, PlainChannel]:
    """Channels without an id get those after the highest one, in their order; from 1 on where none has one."""
    # One that is too high is a mistake of its own channel, not of those after it.
    given = (channel.id for channel in channels.values() if channel.id is not None)
    next_id = max((id_ for id_ in given if id_ <= limits.CHANNEL_ID_MAX), default=0) + 1
    numbered = {}
    for place, channel in channels.items():
        numbered[place] = channel
        if channel.id is None:
            numbered[place] = msgspec.structs.replace(channel, id=next_id)
            next_id += 1
    return numbered


def _conversion(plain: PlainConversion | None) -> tuple[Conversion | None, str, Path]:
    """A conversion, what is wrong with it, and the path within it to that."""
    if plain is None:
        return None, "", ()
    rules = [plain.rational, plain.table, plain.text]
    if sum(rule is not None for rule in rules) != 1:
        return None, "its conversion has to be one of rational, table and text", ()
    if plain.interpolated and plain.table is None:
        return None, "only a table conversion can be interpolated", ("interpolated",)
    if plain.default and plain.text is None:
        return None, "only a text conversion has a default", ("default",)
    if plain.rational is not None:
        return RationalConversion(tuple(plain.rational)), "", ()
    if plain.table is not None:
        raw, calibrated = ([pair[side] for pair in plain.table] for side in (0, 1))
        return TableConversion(tuple(raw), tuple(calibrated), plain.interpolated), "", ()
    numbers: list[float] = []
    texts = plain.text or {}
    for key in texts:
        try:
            numbers.append(float(key))
        except ValueError as error:
            return None, f"its conversion has a text for what is no number: {error}", ("text", key)
    return TextConversion(tuple(numbers), tuple(texts.values()), plain.default), "", ()
