"""Options of a writer together with a configuration: it says what channels are, options fill in what it leaves open."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rta_wire import errors
from rta_wire.channels import model
from rta_wire.codec import layout
from rta_writers.options import parse
from rta_writers.options.write import WriteOptions

_TABLES: Final = {"sampleType": ("sample_type", "type"), "kind": ("kind", "kind")}
"""The field of the options, and that of a channel, for each option by channel."""


def apply(options: WriteOptions, channel_list: model.ChannelList) -> WriteOptions:
    """The options with the channels of their configuration. Raises where they say something else."""
    for name, channel_id in options.channels.items():
        known = _find(channel_list, name, "channels", options.config)
        if known.id != channel_id:
            raise _differs("channels", known, "id", known.id, channel_id)
    for option, (field, attribute) in _TABLES.items():
        _check_table(options, channel_list, option, getattr(options, field), attribute)
    return msgspec.structs.replace(options, channel_list=_with_intervals(options, channel_list))


def _find(channel_list: model.ChannelList, name: str, option: str, config: str | None) -> model.Channel:
    channel = channel_list.by_name.get(name)
    if channel is None and (channel_id := model.parse_id(name)) is not None:
        channel = channel_list.by_id.get(channel_id)
    if channel is None:
        raise errors.Usage(
            reason=f"Option {option!r} speaks of channel {parse.quote(name)}, which configuration {config} does not "
            f"have.{parse.suggest_channel(name, channel_list)}"
        )
    return channel


def _check_table(
    options: WriteOptions, channel_list: model.ChannelList, option: str, table: Mapping[str, Any], attribute: str
) -> None:
    for channel, value in _values(options, channel_list, option, table):
        known = getattr(channel, attribute)
        if known != value:
            raise _differs(option, channel, attribute, known.value, value.value)


def _values(
    options: WriteOptions, channel_list: model.ChannelList, option: str, table: Mapping[str, Any]
) -> list[tuple[model.Channel, Any]]:
    """What an option says of each channel that it speaks of."""
    by_id = {
        _find(channel_list, name, option, options.config).id: value
        for name, value in table.items()
        if name != parse.EVERY_CHANNEL
    }
    if parse.EVERY_CHANNEL in table:
        by_id = {channel.id: table[parse.EVERY_CHANNEL] for channel in channel_list.channels} | by_id
    return [(channel_list.by_id[channel_id], value) for channel_id, value in by_id.items()]


def _with_intervals(options: WriteOptions, channel_list: model.ChannelList) -> model.ChannelList:
    """The list with intervals of periodic channels that the configuration leaves open and the options give."""
    intervals: dict[int, int] = {}
    for channel, interval_ns in _values(options, channel_list, "intervalNs", options.interval_ns):
        is_named = bool({channel.name, str(channel.id)} & options.interval_ns.keys())
        if channel.kind is not layout.Kind.PERIODIC and not is_named:
            continue  # an interval for all channels is one for those that have any
        if channel.interval_ns not in (0, interval_ns) or channel.kind is not layout.Kind.PERIODIC:
            raise _differs("intervalNs", channel, "interval", channel.interval_ns, interval_ns)
        intervals[channel.id] = interval_ns
    if not intervals:
        return channel_list
    filled = [
        msgspec.structs.replace(channel, interval_ns=intervals.get(channel.id, channel.interval_ns))
        for channel in channel_list.channels
    ]
    return msgspec.structs.replace(channel_list, channels=tuple(filled))


def _differs(option: str, channel: model.Channel, what: str, known: object, wanted: object) -> errors.Usage:
    return errors.Usage(
        reason=f"Option {option!r} says that channel {channel.name!r} has the {what} {wanted}, and the configuration "
        f"of the session says {known}. Leave the option out, or change the configuration"
    )
