"""Options that say how samples are stored, for writers, readers and the archive job."""

from collections.abc import Mapping
from typing import Any, Final

from rta_wire import errors, limits
from rta_wire.channels import model
from rta_wire.codec import burst, layout
from rta_writers.options import parse

LAYOUT_PARSERS: Final[dict[str, parse.ValueParser]] = {
    "channels": parse.table(parse.integer(0, limits.CHANNEL_ID_MAX)),
    "sampleType": parse.per_channel(parse.one_of(layout.SampleType)),
    "kind": parse.per_channel(parse.one_of(layout.Kind)),
    "intervalNs": parse.per_channel(parse.integer(0, limits.TIME_NS_MAX)),
    "framing": parse.one_of(burst.Framing),
}
"""Options that readers and writers share: types and kinds of samples by channel, and the framing of bursts."""


def build_layouts(
    channels: Mapping[str, int],
    types: Mapping[str, layout.SampleType],
    kinds: Mapping[str, layout.Kind],
    intervals_ns: Mapping[str, int],
    default_kind: layout.Kind = layout.Kind.TIMESTAMPED,
) -> layout.Plan:
    """The layouts of all channels, from tables by channel: a name among `channels`, an id, or `*` for all others."""
    tables: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        ("kind", "kind", kinds),
        ("sampleType", "type", types),
        ("intervalNs", "interval_ns", intervals_ns),
    )
    default: dict[str, Any] = {"kind": default_kind}
    by_channel: dict[int, dict[str, Any]] = {}
    for option, field, table in tables:
        for name, value in table.items():
            is_default = name == parse.EVERY_CHANNEL
            fields = default if is_default else by_channel.setdefault(_channel_id(name, channels, option), {})
            fields[field] = value
    layouts = []
    for channel, fields in by_channel.items():
        merged = {**default, **fields}
        if merged["kind"] is not layout.Kind.PERIODIC and "interval_ns" not in fields:
            merged.pop("interval_ns", None)
        layouts.append((channel, layout.Layout(**merged)))
    try:
        return layout.Plan(layouts, default=layout.Layout(**default))
    except errors.BadSamples as error:
        raise errors.Usage(reason=f"Options 'kind' and 'intervalNs': {error.facts['reason']}") from error


def _channel_id(name: str, channels: Mapping[str, int], option: str) -> int:
    if name in channels:
        return channels[name]
    if (channel_id := model.parse_id(name)) is not None:
        return channel_id
    hint = parse.suggest(name, channels) if channels else ""
    raise errors.Usage(
        reason=f"Option {option!r} speaks of channel {parse.quote(name)}, "
        f"which is no id and not among 'channels'.{hint}"
    )
