"""Channels and events of an application: what each is called, how its samples are stored and what they mean.

Values that were checked: an error names the channel and the reason. JSON and files are left to other modules.
"""

import enum
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from rta_wire import errors, limits
from rta_wire.channels import mistakes
from rta_wire.channels.conversions import Conversion
from rta_wire.codec.layout import Kind, Layout, Plan, SampleType

DEFAULT_APPLICATION: Final = "rta"
GROUP_SEPARATOR: Final = mistakes.GROUP_SEPARATOR
INTEGERS_64: Final = frozenset({SampleType.INT64, SampleType.UINT64})


class Priority(enum.StrEnum):
    """How much an event matters."""

    DEBUG = "debug"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One measured quantity. `min`, `max` and the warning limits are in engineering units."""

    id: int
    name: str
    unit: str = ""
    description: str = ""
    type: SampleType = SampleType.DOUBLE
    kind: Kind = Kind.TIMESTAMPED
    interval_ns: int = 0
    """Of a periodic channel; 0 leaves it open."""
    min: float | None = None
    max: float | None = None
    warn_min: float | None = None
    warn_max: float | None = None
    group: tuple[str, ...] = ()
    """The path of the group that it is shown in, the outermost first."""
    conversion: Conversion | None = None

    @property
    def layout(self) -> Layout:
        """How its samples are sent."""
        return Layout(self.type, self.kind, self.interval_ns)


class EventDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of event."""

    id: int
    text: str
    priority: Priority = Priority.LOW


class ChannelList(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All channels and events of an application, in the order of their ids."""

    application: str = DEFAULT_APPLICATION
    description: str = ""
    channels: tuple[Channel, ...] = ()
    events: tuple[EventDefinition, ...] = ()

    @functools.cached_property
    def by_id(self) -> Mapping[int, Channel]:
        return {channel.id: channel for channel in self.channels}

    @functools.cached_property
    def by_name(self) -> Mapping[str, Channel]:
        return {channel.name: channel for channel in self.channels}

    @functools.cached_property
    def event_by_id(self) -> Mapping[int, EventDefinition]:
        return {event.id: event for event in self.events}

    def layouts(self, *, default: Layout | None = None) -> Plan:
        """Sample types, kinds and intervals of all channels, for the codec."""
        return Plan(((channel.id, channel.layout) for channel in self.channels), default=default)

    def shifted(self, offset: int) -> "ChannelList":
        """The list with another number added to each id, as a binding with a `channelOffset` has it. A name that is a
        number stays that of its id."""
        if not offset:
            return self
        moved = [
            msgspec.structs.replace(
                channel,
                id=channel.id + offset,
                name=str(channel.id + offset) if channel.name.isdecimal() else channel.name,
            )
            for channel in self.channels
        ]
        return build(moved, self.events, application=self.application, description=self.description)


EMPTY: Final = ChannelList()


def parse_id(text: str) -> int | None:
    """The id of a channel that a text of digits stands for; None where it stands for none."""
    if not text.isdecimal() or len(text) > len(str(limits.CHANNEL_ID_MAX)):
        return None
    return number if (number := int(text)) <= limits.CHANNEL_ID_MAX else None


def build(
    channels: Iterable[Channel],
    events: Iterable[EventDefinition] = (),
    *,
    application: str = DEFAULT_APPLICATION,
    description: str = "",
) -> ChannelList:
    """A list that was checked, in the order of ids. Raises `BadChannels` with the channel and the reason."""
    channel_list = ChannelList(
        application=application,
        description=description,
        channels=tuple(sorted(map(_with_floats, channels), key=lambda channel: channel.id)),
        events=tuple(sorted(events, key=lambda event: event.id)),
    )
    _check_list(channel_list)
    return channel_list


def _with_floats(channel: Channel) -> Channel:
    """The channel with its limits as floats, none of them -0.0: equal lists have to have equal bytes."""
    limits_ = {name: getattr(channel, name) for name in ("min", "max", "warn_min", "warn_max")}
    conversion = channel.conversion and channel.conversion.with_floats()
    floats = {name: None if limit is None else float(limit) + 0.0 for name, limit in limits_.items()}
    return msgspec.structs.replace(channel, conversion=conversion, **floats)


def merge(lists: Iterable[ChannelList]) -> ChannelList:
    """One list of several that a session is bound to. Where two have the same id or name, the later one wins."""
    channels: dict[int, Channel] = {}
    events: dict[int, EventDefinition] = {}
    application, description = DEFAULT_APPLICATION, ""
    for channel_list in lists:
        application, description = channel_list.application, channel_list.description
        others = {id_: known for id_, known in channels.items() if known.name not in channel_list.by_name}
        channels = others | dict(channel_list.by_id)
        events |= channel_list.event_by_id
    return build(channels.values(), events.values(), application=application, description=description)


def _check_list(channel_list: ChannelList) -> None:
    """Raise `BadChannels` with the first mistake of a list."""
    for where, reason in _mistakes(channel_list):
        raise errors.BadChannels(where=where, reason=reason)


def _mistakes(channel_list: ChannelList) -> Iterator[tuple[str, str]]:
    """What is wrong with a list: where, and why."""
    channels, events = channel_list.channels, channel_list.events
    for _, reason in mistakes.of_application(channel_list):
        yield f"application {channel_list.application!r}", reason
    for channel in channels:
        for _, reason in mistakes.of_channel(channel):
            yield mistakes.channel_label(channel.name, channel.id), reason
    for event in events:
        for _, reason in mistakes.of_event(event):
            yield mistakes.event_label(event.id), reason
    for place, (_, reason) in mistakes.repeated_channels(channels):
        yield mistakes.channel_label(channels[place].name, channels[place].id), reason
    for place, (_, reason) in mistakes.repeated_events(events):
        yield mistakes.event_label(events[place].id), reason
