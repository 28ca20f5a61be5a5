"""The configuration JSON that viewers read, made of a list of channels, and the list made of the JSON.

The JSON is canonical: the same list gives the same bytes, and their hash is the identifier of the configuration. What
viewers have no words for stands in a property of its own within the application. 64-bit integers stand there alone:
a viewer would take them for doubles.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from rta_wire import errors, limits
from rta_wire.channels import model, plain, plain_parser
from rta_wire.channels.conversions import Conversion, RationalConversion, TableConversion, TextConversion
from rta_wire.codec.layout import Kind, SampleType

OWN_PROPERTY: Final = "rtaSupervisor"
"""Beside `channels` and `parameters`: what these can't say."""

_TYPES: Final = {
    SampleType.UINT8: "u8",
    SampleType.INT8: "s8",
    SampleType.UINT16: "u16",
    SampleType.INT16: "s16",
    SampleType.UINT32: "u32",
    SampleType.INT32: "s32",
    SampleType.FLOAT: "f32",
    SampleType.DOUBLE: "f64",
}
_SAMPLE_TYPES: Final = {name: sample_type for sample_type, name in _TYPES.items()}
_NOT_IN_IDENTIFIERS: Final = re.compile(r"[^A-Za-z0-9_]")


class _ChannelJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    id: int
    name: str
    source: Kind
    type: str
    interval: int = 0


class _ParameterJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    name: str
    desc: str
    conv: str
    channels: tuple[int, ...]
    min: float | None = None
    max: float | None = None
    warnMin: float | None = None  # noqa: N815 - a name of the configuration
    warnMax: float | None = None  # noqa: N815 - a name of the configuration
    unit: str = ""


class _RationalJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    coeffs: tuple[float, ...]


class _ConversionJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    unit: str = ""
    rational: _RationalJson | None = None
    table: TableConversion | None = None
    text: TextConversion | None = None

    def rule(self) -> Conversion | None:
        """How it converts; None for 1:1."""
        rational = None if self.rational is None else RationalConversion(self.rational.coeffs)
        rules = [rule for rule in (rational, self.table, self.text) if rule is not None]
        if len(rules) > 1:
            raise _bad(f"conversion {self.name!r}", f"it has {len(rules)} rules, not one")
        return rules[0] if rules else None


class _EventJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    code: str
    desc: str
    pri: model.Priority
    convs: tuple[str, ...] = ()


class _GroupJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    desc: str
    groups: tuple["_GroupJson", ...] = ()
    params: tuple[str, ...] = ()


class _TreeJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: tuple[_GroupJson, ...] = ()
    params: tuple[str, ...] = ()


class _OwnJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    channels: tuple[plain.PlainChannel, ...] = ()


class _ApplicationJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    desc: str
    tree: _TreeJson
    parameters: tuple[_ParameterJson, ...]
    channels: tuple[_ChannelJson, ...]
    conversions: tuple[_ConversionJson, ...]
    events: tuple[_EventJson, ...]
    rtaSupervisor: _OwnJson = _OwnJson()  # noqa: N815 - a name of the configuration


def identifier(data: bytes) -> str:
    """The identifier of a configuration: a hash of its canonical JSON."""
    return hashlib.sha256(data).hexdigest()[: limits.CONFIG_IDENTIFIER_CHARS]


def encode(channel_list: model.ChannelList) -> bytes:
    """The canonical configuration JSON."""
    app = channel_list.application
    shown = [channel for channel in channel_list.channels if channel.type not in model.INTEGERS_64]
    parameter_ids = dict(zip((channel.id for channel in shown), _parameter_ids(shown, app), strict=True))
    conversions = _conversions(shown, app)
    application = _ApplicationJson(
        desc=channel_list.description,
        tree=_tree(shown, parameter_ids),
        parameters=tuple(_parameter(channel, parameter_ids[channel.id], conversions) for channel in shown),
        channels=tuple(
            _ChannelJson(channel.id, channel.name, channel.kind, _TYPES[channel.type], channel.interval_ns)
            for channel in shown
        ),
        conversions=tuple(_conversion_json(name, *rule) for rule, name in conversions.items()),
        events=tuple(
            _EventJson(event.id, f"{event.id:04X}", _event_prefix(event.id, app) + event.text, event.priority)
            for event in channel_list.events
        ),
        rtaSupervisor=_OwnJson(
            tuple(
                plain.plain_channel(channel) for channel in channel_list.channels if channel.type in model.INTEGERS_64
            )
        ),
    )
    data = msgspec.json.encode({app: application}, order="deterministic")
    if len(data) > limits.CONFIG_MAX_BYTES:
        raise _bad(f"application {app!r}", f"its JSON has {len(data)} bytes, more than {limits.CONFIG_MAX_BYTES}")
    return data


def decode(data: bytes) -> model.ChannelList:
    """The list of channels in a configuration JSON. Raises `BadChannels` where it is none, or has what a list of
    channels has no place for."""
    if len(data) > limits.CONFIG_MAX_BYTES:
        raise _bad("the configuration", f"it has {len(data)} bytes, more than {limits.CONFIG_MAX_BYTES}")
    try:
        document = msgspec.json.decode(data, type=dict[str, _ApplicationJson])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad("the configuration", str(error)) from error
    if len(document) != 1:
        raise _bad("the configuration", f"it has {len(document)} applications, not one")
    [(app, application)] = document.items()
    return model.build(
        [*_channels(application, app), *plain_parser.from_structs(application.rtaSupervisor.channels)],
        _events(application.events, app),
        application=app,
        description=application.desc,
    )


_Rule = tuple[str, Conversion | None]
"""A unit and how samples become values in it."""


def _parameter_ids(channels: Iterable[model.Channel], app: str) -> Iterator[str]:
    """Ids of parameters, `name:application`: the name as a C identifier, with a number where two would be the same."""
    names = [_c_identifier(channel.name) for channel in channels]
    taken = set(names)
    next_numbers: dict[str, int] = {}
    for name in names:
        unique, number = name, next_numbers.get(name, 2)
        if name in next_numbers:
            while unique in taken:
                unique, number = f"{name}_{number}", number + 1
            taken.add(unique)
        next_numbers[name] = number
        yield f"{unique}:{app}"


def _c_identifier(name: str) -> str:
    replaced = _NOT_IN_IDENTIFIERS.sub("_", name)
    return f"_{replaced}" if replaced[0].isdecimal() else replaced


def _conversions(channels: Iterable[model.Channel], app: str) -> dict[_Rule, str]:
    """Names of conversions by what they do: channels with the same unit and rule share one."""
    rules = dict.fromkeys((channel.unit, channel.conversion) for channel in channels)
    return {rule: f"CONV_{number}:{app}" for number, rule in enumerate(rules, 1)}


def _conversion_json(name: str, unit: str, conversion: Conversion | None) -> _ConversionJson:
    match conversion:
        case RationalConversion(coefficients=coefficients):
            return _ConversionJson(name, unit, rational=_RationalJson(coefficients))
        case TableConversion():
            return _ConversionJson(name, unit, table=conversion)
        case TextConversion():
            return _ConversionJson(name, unit, text=conversion)
        case None:
            return _ConversionJson(name, unit)


def _parameter(channel: model.Channel, parameter_id: str, conversions: dict[_Rule, str]) -> _ParameterJson:
    return _ParameterJson(
        id=parameter_id,
        name=parameter_id.partition(":")[0],
        desc=channel.description,
        conv=conversions[channel.unit, channel.conversion],
        channels=(channel.id,),
        min=channel.min,
        max=channel.max,
        warnMin=channel.warn_min,
        warnMax=channel.warn_max,
        unit=channel.unit,
    )


def _tree(channels: Iterable[model.Channel], parameter_ids: dict[int, str]) -> _TreeJson:
    """Groups by their paths, each with its parameters in the order of ids."""
    nested: dict[str, Any] = {}
    params: dict[tuple[str, ...], list[str]] = {}
    for channel in channels:
        level = nested
        for part in channel.group:
            level = level.setdefault(part, {})
        params.setdefault(channel.group, []).append(parameter_ids[channel.id])

    def groups(level: dict[str, Any], path: tuple[str, ...]) -> tuple[_GroupJson, ...]:
        paths = {part: (*path, part) for part in sorted(level)}
        return tuple(
            _GroupJson(
                model.GROUP_SEPARATOR.join(inner), part, groups(level[part], inner), tuple(params.get(inner, ()))
            )
            for part, inner in paths.items()
        )

    return _TreeJson(groups(nested, ()), tuple(params.get((), ())))


def _event_prefix(event_id: int, app: str) -> str:
    return f"{event_id:04X}:{app} "


def _events(events: Iterable[_EventJson], app: str) -> Iterator[model.EventDefinition]:
    for event in events:
        prefix = _event_prefix(event.id, app)
        if not event.desc.startswith(prefix):
            raise _bad(f"event {event.id}", f"its desc does not begin with {prefix!r}")
        if event.convs:
            raise _bad(f"event {event.id}", "conversions of raw values can't be kept")
        yield model.EventDefinition(id=event.id, text=event.desc.removeprefix(prefix), priority=event.pri)


def _channels(application: _ApplicationJson, app: str) -> Iterator[model.Channel]:
    conversions = {conversion.name: conversion for conversion in application.conversions}
    groups = dict(_group_paths(application.tree.groups, ()))
    parameters = _parameters(application.parameters)
    for channel in application.channels:
        where = f"channel {channel.name!r}"
        if channel.type not in _SAMPLE_TYPES:
            raise _bad(where, f"its type is {channel.type!r}, not one of {', '.join(_SAMPLE_TYPES)}")
        if (parameter := parameters.pop(channel.id, None)) is None:
            raise _bad(where, f"no parameter has its id {channel.id}")
        if (conversion := conversions.get(parameter.conv)) is None:
            raise _bad(where, f"there is no conversion {parameter.conv!r} in application {app!r}")
        if conversion.unit and parameter.unit not in ("", conversion.unit):
            raise _bad(where, f"its unit is {parameter.unit!r}, and that of its conversion {conversion.unit!r}")
        yield model.Channel(
            id=channel.id,
            name=channel.name,
            unit=parameter.unit or conversion.unit,
            description=parameter.desc,
            type=_SAMPLE_TYPES[channel.type],
            kind=channel.source,
            interval_ns=channel.interval,
            min=parameter.min,
            max=parameter.max,
            warn_min=parameter.warnMin,
            warn_max=parameter.warnMax,
            group=groups.get(parameter.id, ()),
            conversion=conversion.rule(),
        )
    for channel_id, parameter in parameters.items():
        raise _bad(f"parameter {parameter.id!r}", f"there is no channel with its id {channel_id}")


def _parameters(parameters: Iterable[_ParameterJson]) -> dict[int, _ParameterJson]:
    """Parameters by the id of the channel that each of them is about."""
    by_channel: dict[int, _ParameterJson] = {}
    for parameter in parameters:
        if len(parameter.channels) != 1:
            raise _bad(f"parameter {parameter.id!r}", f"it has {len(parameter.channels)} channels, not one")
        [channel_id] = parameter.channels
        if channel_id in by_channel:
            raise _bad(f"parameter {parameter.id!r}", f"channel {channel_id} has another one")
        by_channel[channel_id] = parameter
    return by_channel


def _group_paths(groups: Iterable[_GroupJson], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for group in groups:
        inner = (*path, group.desc)
        yield from ((parameter, inner) for parameter in group.params)
        yield from _group_paths(group.groups, inner)


def _bad(where: str, reason: str) -> errors.BadChannels:
    return errors.BadChannels(where=where, reason=reason)
