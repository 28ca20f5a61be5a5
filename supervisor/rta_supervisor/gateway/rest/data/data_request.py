"""What a request for data asks for: range, channels, form and resolution. Pure."""

import enum
import time
from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.datastructures import ImmutableMultiDict

from rta_supervisor.gateway.rest.data.time_index import TimeSpan
from rta_wire import errors, limits, quoting, time_grammar
from rta_wire.channels.model import ChannelList
from rta_wire.chunks import channel_expression, transfer
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.codec.layout import Kind, Plan

RESOLUTION_MAX: Final = 20_000
NAMES_MAX: Final = 5000


class DataForm(enum.StrEnum):
    """Forms of data, by the names that `format` takes."""

    CHUNKS = "chunks"
    ARROW = "arrow"
    JSON_LINES = "jsonl"
    CSV = "csv"

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES[self]


_MEDIA_TYPES: Final = {
    DataForm.CHUNKS: transfer.MEDIA_TYPE,
    DataForm.ARROW: "application/vnd.apache.arrow.stream",
    DataForm.JSON_LINES: "application/x-ndjson",
    DataForm.CSV: "text/csv; charset=utf-8",
}
_BY_MEDIA_TYPE: Final = {
    **{form.media_type.partition(";")[0]: form for form in DataForm},
    "application/jsonl": DataForm.JSON_LINES,
    "application/json-lines": DataForm.JSON_LINES,
}


class DataRequest(msgspec.Struct, frozen=True):
    """A range of time of some channels, in one form."""

    form: DataForm
    start_ns: int
    end_ns: int
    expression: ChannelSelection | None = None
    """None: the request names no channels by their ids."""
    names: tuple[str, ...] = ()
    resolution: int = 0
    """Steps of an envelope; 0 for every sample."""

    @property
    def span(self) -> TimeSpan | None:
        """The range, where the request has both a start and an end."""
        has_both = self.start_ns > limits.TIME_NS_MIN and self.end_ns < limits.TIME_NS_MAX
        return TimeSpan(self.start_ns, self.end_ns) if has_both else None

    def select(self, channel_list: ChannelList) -> ChannelSelection:
        """The channels that are meant: by id, by name, or all where there is neither. Raises `BadQuery`."""
        if not self.names:
            return self.expression or channel_expression.EVERYTHING
        unknown = [name for name in self.names if name not in channel_list.by_name]
        if unknown:
            known = f"it has {len(channel_list.channels)} names" if channel_list.channels else "it has no configuration"
            quoted = quoting.cut(unknown[0], quoting.NAME_MAX_CHARS)
            raise errors.BadQuery(where="names", reason=f"the session has no channel {quoted!r}: {known}")
        named = ChannelSelection.of(channel_list.by_name[name].id for name in self.names)
        by_id = self.expression
        return named if by_id is None or by_id.is_everything else named.union(by_id)


def parse(fields: ImmutableMultiDict[str, str], accept: str, *, channels: str | None, default: DataForm) -> DataRequest:
    """From the query and the header `Accept` of a request. `channels`: the expression in its path."""
    expression = channels if channels is not None else fields.get("channels")
    names = tuple(name.strip() for text in fields.getlist("names") for name in text.split(",") if name.strip())
    if len(names) > NAMES_MAX:
        raise errors.BadQuery(where="names", reason=f"there are more than {NAMES_MAX}")
    start_ns = _time(fields, "start", limits.TIME_NS_MIN)
    end_ns = _time(fields, "end", limits.TIME_NS_MAX)
    if end_ns < start_ns:
        raise errors.BadQuery(where="end", reason="it is before start")
    resolution = _resolution(fields.get("resolution", ""))
    form = choose_form(fields.get("format", ""), accept, default)
    if resolution and form is DataForm.CHUNKS:
        reason = "chunks have no envelope: ask for format=arrow, jsonl or csv, or for their media types"
        raise errors.BadQuery(where="resolution", reason=reason)
    parsed = None if expression is None else channel_expression.parse(expression)
    return DataRequest(form, start_ns, end_ns, parsed, names, resolution)


def choose_form(name: str, accept: str, default: DataForm) -> DataForm:
    """By the parameter `format`, else by the header: the first of those that it likes best. Raises `BadQuery` or
    `NotAcceptable`."""
    if name:
        try:
            return DataForm(name)
        except ValueError:
            raise errors.BadQuery(where="format", reason=f"it is none of {', '.join(DataForm)}") from None
    wanted = [(_quality(parameters), media) for media, parameters in _accepted(accept)]
    if not wanted:
        return default
    for quality, media in sorted(wanted, key=lambda one: -one[0]):
        if quality <= 0:
            break
        if media == "*/*" or default.media_type.partition(";")[0] == media:
            return default
        if media in _BY_MEDIA_TYPE:
            return _BY_MEDIA_TYPE[media]
        if media == "application/*":
            return default if default is not DataForm.CSV else DataForm.JSON_LINES
        if media == "text/*":
            return DataForm.CSV
    raise errors.NotAcceptable(accept=quoting.cut(accept, quoting.NAME_MAX_CHARS), known=", ".join(_BY_MEDIA_TYPE))


def of_kind(selection: ChannelSelection, kind: Kind, layouts: Plan) -> ChannelSelection:
    """The channels of a selection that are sent as this kind."""
    others = sorted(channel for channel, layout in layouts.channels.items() if layout.kind is not kind)
    if layouts.default.kind is not kind:
        named = (channel for channel, layout in layouts.channels.items() if layout.kind is kind)
        return ChannelSelection.of(channel for channel in named if selection.has(channel))
    return selection.without(others)


def _accepted(accept: str) -> list[tuple[str, Mapping[str, str]]]:
    entries: list[tuple[str, Mapping[str, str]]] = []
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if media:
            pairs = (parameter.partition("=") for parameter in parameters)
            entries.append((media.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}))
    return entries


def _quality(parameters: Mapping[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _time(fields: ImmutableMultiDict[str, str], name: str, default: int) -> int:
    text = fields.get(name, "").strip()
    if not text:
        return default
    try:
        return time_grammar.parse_ns(text, time.time_ns())
    except ValueError:
        raise errors.BadQuery(where=name, reason=f"it is not {time_grammar.GRAMMAR}") from None


def _resolution(text: str) -> int:
    if not text:
        return 0
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(RESOLUTION_MAX))
    if not is_number or not 1 <= int(text) <= RESOLUTION_MAX:
        raise errors.BadQuery(where="resolution", reason=f"it is no number from 1 to {RESOLUTION_MAX}")
    return int(text)
