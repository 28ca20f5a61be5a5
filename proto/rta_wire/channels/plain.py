"""Channels and events as plain values, the way people write them in files: texts, numbers, lists and tables.

What was written by hand is read by `plain_parser`.
"""

from typing import Any, Final

import msgspec

from rta_wire.channels import model
from rta_wire.channels.conversions import Conversion, RationalConversion, TableConversion, TextConversion
from rta_wire.codec.layout import Kind, SampleType

_EXACT_INTEGER_MAX: Final = 2.0**53


class PlainConversion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A conversion as it is written in a file. One of `rational`, `table` and `text` is there."""

    rational: list[float] | None = None
    table: list[tuple[float, float]] | None = None
    interpolated: bool = False
    text: dict[str, str] | None = None
    default: str = ""


class PlainChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A channel as it is written in a file. Without an id it gets the next one that is free."""

    id: int | None = None
    name: str
    unit: str = ""
    description: str = ""
    type: str = SampleType.DOUBLE.value
    kind: str = Kind.TIMESTAMPED.value
    interval_ns: int = 0
    min: float | None = None
    max: float | None = None
    warn_min: float | None = None
    warn_max: float | None = None
    group: str = ""
    conversion: PlainConversion | None = None


class PlainEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The definition of an event as it is written in a file."""

    id: int
    text: str
    priority: str = model.Priority.LOW.value


class PlainList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """All that a file has."""

    application: str = model.DEFAULT_APPLICATION
    description: str = ""
    channels: list[PlainChannel] = []
    events: list[PlainEvent] = []


def to_plain(channel_list: model.ChannelList) -> dict[str, Any]:
    """Plain values of a list. What is as it is by default is left out."""
    plain = PlainList(
        application=channel_list.application,
        description=channel_list.description,
        channels=[plain_channel(channel) for channel in channel_list.channels],
        events=[
            PlainEvent(id=event.id, text=event.text, priority=event.priority.value) for event in channel_list.events
        ],
    )
    document: dict[str, Any] = msgspec.to_builtins(plain)
    return document


def plain_channel(channel: model.Channel) -> PlainChannel:
    """A channel as it is written in a file."""
    return PlainChannel(
        id=channel.id,
        name=channel.name,
        unit=channel.unit,
        description=channel.description,
        type=channel.type.value,
        kind=channel.kind.value,
        interval_ns=channel.interval_ns,
        min=channel.min,
        max=channel.max,
        warn_min=channel.warn_min,
        warn_max=channel.warn_max,
        group=model.GROUP_SEPARATOR.join(channel.group),
        conversion=_plain_conversion(channel.conversion),
    )


def _plain_conversion(conversion: Conversion | None) -> PlainConversion | None:
    match conversion:
        case RationalConversion(coefficients=coefficients):
            return PlainConversion(rational=list(coefficients))
        case TableConversion(raw=raw, calibrated=calibrated, interpolated=interpolated):
            return PlainConversion(table=list(zip(raw, calibrated, strict=True)), interpolated=interpolated)
        case TextConversion(keys=keys, values=values, default=default):
            return PlainConversion(text=dict(zip(map(_number_text, keys), values, strict=True)), default=default)
        case None:
            return None


def _number_text(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < _EXACT_INTEGER_MAX else repr(number)
