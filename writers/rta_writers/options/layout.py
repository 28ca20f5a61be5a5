"""Options that say how channels travel: for writers, readers and the archive job."""

from collections.abc import Mapping
from typing import Any, Final

from rta_wire import errors, limits
from rta_wire.codec import burst, layout
from rta_writers.options import parse

LAYOUT_PARSERS: Final[dict[str, parse.ValueParser]] = {
    "channels": parse.table(parse.integer(0, limits.CHANNEL_ID_MAX)),
    "sampleType": parse.per_channel(parse.one_of(layout.SampleType)),
    "kind": parse.per_channel(parse.one_of(layout.Kind)),
    "intervalNs": parse.per_channel(parse.integer(0, limits.TIME_NS_MAX)),
    "framing": parse.one_of(burst.Framing),
}
"""How samples are stored: common to readers and writers."""


def build_layouts(
    channels: Mapping[str, int],
    types: Mapping[str, layout.SampleType],
    kinds: Mapping[str, layout.Kind],
    intervals_ns: Mapping[str, int],
    default_kind: layout.Kind = layout.Kind.TIMESTAMPED,
) -> layout.Plan:
    """A plan from tables by channel, where a channel is a name among `channels` or an id."""
    tables: dict[str, Mapping[str, Any]] = {"sampleType": types, "kind": kinds, "intervalNs": intervals_ns}
    by_channel: dict[int | None, dict[str, Any]] = {None: {"kind": default_kind}}
    for option, field in (("kind", "kind"), ("sampleType", "type"), ("intervalNs", "interval_ns")):
        for name, value in tables[option].items():
            channel = None if name == parse.EVERY_CHANNEL else _channel(name, channels, option)
            by_channel.setdefault(channel, {})[field] = value
    rest = by_channel.pop(None)
    named = []
    for channel, own in by_channel.items():
        merged = {**rest, **own}
        if merged["kind"] is not layout.Kind.PERIODIC and "interval_ns" not in own:
            merged.pop("interval_ns", None)
        named.append((channel, layout.Layout(**merged)))
    try:
        return layout.Plan(
            [(channel, one) for channel, one in named if channel is not None], default=layout.Layout(**rest)
        )
    except errors.BadSamples as error:
        raise errors.Usage(reason=f"Options 'kind' and 'intervalNs': {error.facts['reason']}") from error


def _channel(name: str, channels: Mapping[str, int], option: str) -> int:
    if name in channels:
        return channels[name]
    if name.isdecimal() and int(name) <= limits.CHANNEL_ID_MAX:
        return int(name)
    hint = parse.suggest(name, channels) if channels else ""
    raise errors.Usage(
        reason=f"Option {option!r} speaks of channel {name!r}, which is no id and not among 'channels'.{hint}"
    )
