"""What can be wrong with channels, events and lists of them: each mistake with the field that it is about.

Which of them are reported, and how, is left to others: `model` refuses a list with its first one, files name all.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rta_wire import limits, quoting
from rta_wire.codec.layout import Kind

if TYPE_CHECKING:
    from rta_wire.channels.model import Channel, ChannelList, EventDefinition

CHANNELS_MAX: Final = 65_536
EVENTS_MAX: Final = 65_536
NAME_MAX_CHARS: Final = 128
UNIT_MAX_CHARS: Final = 64
DESCRIPTION_MAX_CHARS: Final = 1000
GROUP_MAX_DEPTH: Final = 8
GROUP_SEPARATOR: Final = "/"
EVENT_ID_MAX: Final = 2**31 - 1

Mistake = tuple[str, str]
"""The name of a field, and what is wrong with it."""

_APPLICATION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_EVERY_CHANNEL: Final = "*"


def channel_label(name: str, channel_id: int) -> str:
    """A channel as errors name it."""
    return f"channel {_quoted(name or f'with id {channel_id}')}"


def event_label(event_id: int) -> str:
    """An event as errors name it."""
    return f"event {_number(event_id)}"


def of_application(channel_list: "ChannelList") -> Iterator[Mistake]:
    """Mistakes of a list as a whole."""
    if not _APPLICATION.fullmatch(channel_list.application):
        yield (
            "application",
            "its name begins with a letter or '_', goes on with letters, digits and '_', and has at most 64 characters",
        )
    yield from _of_text("description", channel_list.description, DESCRIPTION_MAX_CHARS)
    for field, items, most in (
        ("channels", channel_list.channels, CHANNELS_MAX),
        ("events", channel_list.events, EVENTS_MAX),
    ):
        if len(items) > most:
            yield field, f"it has {len(items)} {field}, and at most {most} are taken"


def of_channel(channel: "Channel") -> Iterator[Mistake]:
    """Mistakes of one channel."""
    yield from _of_text("name", channel.name, NAME_MAX_CHARS, is_required=True)
    if channel.name == _EVERY_CHANNEL:
        yield "name", "'*' stands for all channels in options, and is no name"
    if not 0 <= channel.id <= limits.CHANNEL_ID_MAX:
        yield "id", f"its id is {_number(channel.id)}, not between 0 and {limits.CHANNEL_ID_MAX}"
    if channel.name.isdecimal() and channel.name != str(channel.id):
        yield "id", f"its name is a number, which stands for an id, and its id is {_number(channel.id)}"
    yield from _of_text("unit", channel.unit, UNIT_MAX_CHARS)
    yield from _of_text("description", channel.description, DESCRIPTION_MAX_CHARS)
    yield from _of_group(channel.group)
    yield from _of_interval(channel)
    yield from _of_limits(channel)
    if channel.conversion is not None:
        try:
            channel.conversion.check()
        except ValueError as error:
            yield "conversion", str(error)


def of_event(event: "EventDefinition") -> Iterator[Mistake]:
    """Mistakes of the definition of one event."""
    if not 0 <= event.id <= EVENT_ID_MAX:
        yield "id", f"its id is not between 0 and {EVENT_ID_MAX}"
    yield from _of_text("text", event.text, DESCRIPTION_MAX_CHARS)


def repeated_channels(channels: "Sequence[Channel]") -> Iterator[tuple[int, Mistake]]:
    """Channels whose name or id an earlier one has, by their places in the list."""
    names: set[str] = set()
    names_by_id: dict[int, str] = {}
    for place, channel in enumerate(channels):
        if channel.name in names:
            yield place, ("name", "its name stands there twice")
        elif channel.id in names_by_id:
            yield place, ("id", f"its id {channel.id} is that of {_quoted(names_by_id[channel.id])}")
        names.add(channel.name)
        names_by_id.setdefault(channel.id, channel.name)


def repeated_events(events: "Sequence[EventDefinition]") -> Iterator[tuple[int, Mistake]]:
    """Events whose id an earlier one has, by their places in the list."""
    ids: set[int] = set()
    for place, event in enumerate(events):
        if event.id in ids:
            yield place, ("id", "its id stands there twice")
        ids.add(event.id)


def _of_text(field: str, text: str, max_chars: int, *, is_required: bool = False) -> Iterator[Mistake]:
    """A text that is empty but must not be, too long, or has characters that nobody sees: the first of these."""
    if is_required and not text.strip():
        yield field, f"its {field} is empty"
    elif len(text) > max_chars:
        yield field, f"its {field} has {len(text)} characters, more than {max_chars}"
    elif not text.isprintable():
        yield field, f"its {field} {_quoted(text)} has characters that can't be printed"
    elif text != text.strip():
        yield field, f"its {field} {_quoted(text)} begins or ends with a space"


def _of_group(group: tuple[str, ...]) -> Iterator[Mistake]:
    if len(group) > GROUP_MAX_DEPTH:
        yield "group", f"its group is {len(group)} levels deep, more than {GROUP_MAX_DEPTH}"
    for part in group:
        if not part.strip():
            path = _quoted(GROUP_SEPARATOR.join(group))
            yield "group", f"its group {path} has an empty name beside {GROUP_SEPARATOR!r}"
            continue
        yield from _of_text("group", part, NAME_MAX_CHARS)
        if GROUP_SEPARATOR in part:
            yield "group", f"{GROUP_SEPARATOR!r} stands between groups, and is in the name of group {_quoted(part)}"


def _of_interval(channel: "Channel") -> Iterator[Mistake]:
    if not 0 <= channel.interval_ns <= limits.TIME_NS_MAX:
        yield (
            "interval_ns",
            f"its interval is {_number(channel.interval_ns)} ns, not between 0 and {limits.TIME_NS_MAX}",
        )
    elif channel.interval_ns and channel.kind is not Kind.PERIODIC:
        yield "interval_ns", f"it has an interval but is {channel.kind.value}, not periodic"


def _of_limits(channel: "Channel") -> Iterator[Mistake]:
    ends = {"min": channel.min, "max": channel.max, "warn_min": channel.warn_min, "warn_max": channel.warn_max}
    for field, end in ends.items():
        if end is not None and not math.isfinite(end):
            yield field, f"its {field} is {end}"
    for lower, upper in (("min", "max"), ("warn_min", "warn_max")):
        low, high = ends[lower], ends[upper]
        if low is not None and high is not None and low > high:
            yield upper, f"its {lower} {low:g} is above its {upper} {high:g}"


def _number(number: int) -> str:
    return quoting.cut(str(number), NAME_MAX_CHARS)


def _quoted(text: str) -> str:
    return repr(quoting.cut(text, NAME_MAX_CHARS))
