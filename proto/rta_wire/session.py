"""The Session JSON: its properties and their types, the states of a session, and which properties the supervisor owns.

Unknown properties are kept as they came: the JSON stays a dict that is checked and not converted.
"""

import collections
import datetime as dt
import enum
import json
import math
from typing import Any, Final

import msgspec

from rta_wire import errors, limits, quoting

Json = dict[str, Any]

NS_PER_S: Final = 10**9


class State(enum.StrEnum):
    """States of a session, by the names that stand in its JSON."""

    UNKNOWN = "unknown"
    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"
    TRUNCATED = "truncated"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def number(self) -> int:
        """The number that the RTA protocol has for the state."""
        return _NUMBERS[self]

    @property
    def is_closed(self) -> bool:
        return self.number >= _NUMBERS[State.CLOSED]


_NUMBERS: Final = {
    State.UNKNOWN: 0,
    State.WAITING: 1,
    State.OPEN: 2,
    State.CLOSED: 4,
    State.TRUNCATED: 12,
    State.FAILED: 28,
    State.ABANDONED: 44,
}


FINAL_STATES: Final = frozenset(state.value for state in State if state.is_closed)


class _Binding(msgspec.Struct):
    identifier: str
    channelOffset: int = 0  # noqa: N815 - a name of the wire


class _TimeRange(msgspec.Struct):
    startTime: int  # noqa: N815 - a name of the wire
    endTime: int  # noqa: N815 - a name of the wire


_Detail = str | int | float | bool


class _Shape(msgspec.Struct):
    """Types of the properties that the protocol names."""

    identity: str
    state: State
    timestamp: dt.datetime
    identifier: str
    timeRange: _TimeRange | None = None  # noqa: N815 - a name of the wire
    startTimestamp: dt.datetime | None = None  # noqa: N815 - a name of the wire
    endTimestamp: dt.datetime | None = None  # noqa: N815 - a name of the wire
    details: dict[str, _Detail] | None = None
    extDetails: dict[str, dict[str, _Detail]] | None = None  # noqa: N815 - a name of the wire
    type: str | None = None
    group: str | None = None
    version: str | int | None = None
    quality: float | None = None
    configBindings: list[_Binding] | None = None  # noqa: N815 - a name of the wire
    children: list[Any] | None = None
    alternates: list[Any] | None = None


def build(identity: str, *, identifier: str | None = None, details: Json | None = None, **properties: Any) -> Json:
    """The JSON of a new session as a client makes it; the supervisor adds the properties that it owns."""
    document: Json = {
        "identity": identity,
        "state": State.OPEN.value,
        "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        "identifier": identity if identifier in (None, "") else identifier,
    }
    if details is not None:
        document["details"] = details
    return check(document | properties)


def parse(text: str | bytes) -> Json:
    """JSON text to a checked document."""
    return check(_loads(text))


def identity_in(text: str | bytes) -> str:
    """The identity in a Session JSON from a stream. The rest of the document is not checked."""
    document = _loads(text)
    identity = document.get("identity") if isinstance(document, dict) else None
    if not isinstance(identity, str):
        raise _bad("$.identity", "it is not there, or not text")
    return identity


def parse_properties(text: str | bytes) -> Json:
    """JSON text to the properties that an update changes. Their values are checked when they are merged."""
    properties = _loads(text)
    if not isinstance(properties, dict):
        raise _bad("$", "it is not an object")
    for name in properties:
        if name in _OWNED or name == "identity":
            raise _bad(f"$.{name}", "the supervisor owns it")
    return properties


def _loads(text: str | bytes) -> Any:
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(raw) > limits.SESSION_JSON_MAX_BYTES:
        raise _bad("$", f"it has {len(raw)} bytes, more than {limits.SESSION_JSON_MAX_BYTES}")
    _check_depth(raw)
    try:
        return json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise _bad("$", "it is not valid UTF-8") from error
    except json.JSONDecodeError as error:
        raise _bad(f"line {error.lineno}, column {error.colno}", error.msg) from error
    except ValueError as error:  # a number with thousands of digits
        raise _bad("$", str(error)) from error


def dump(document: Json) -> bytes:
    """A document to JSON text without spaces, after a check."""
    return _dumps(check(document))


def dump_properties(properties: Json) -> str:
    """The properties of an update to JSON text, after the checks that don't need the rest of the document."""
    text = _dumps(properties).decode()
    parse_properties(text)
    return text


def _dumps(document: Json) -> bytes:
    try:
        raw = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise _bad("$", str(error)) from error
    if len(raw) > limits.SESSION_JSON_MAX_BYTES:
        raise _bad("$", f"it has {len(raw)} bytes, more than {limits.SESSION_JSON_MAX_BYTES}")
    return raw


def check(document: Any) -> Json:
    """The document itself, if it follows the protocol."""
    try:
        shape = msgspec.convert(document, _Shape, strict=True)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at ")
        raise _bad(where.strip("`") or "$", reason) from error
    for name in ("timestamp", "startTimestamp", "endTimestamp"):
        timestamp = getattr(shape, name)
        if timestamp is not None and timestamp.tzinfo is None:
            raise _bad(f"$.{name}", "the time has no zone")
    if shape.quality is not None and not 0 <= shape.quality <= 1:
        raise _bad("$.quality", "it is not between 0.0 and 1.0")
    if any(binding.channelOffset < 0 for binding in shape.configBindings or ()):
        raise _bad("$.configBindings", "a channelOffset is negative")
    if shape.timeRange is not None and shape.timeRange.startTime > shape.timeRange.endTime:
        raise _bad("$.timeRange", "it ends before it starts")
    for name, value in (shape.details or {}).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _bad(f"$.details.{name}", "JSON has no NaN or infinity")
    checked: Json = document
    return checked


def with_supervisor_properties(document: Json, state: State, time_range_ns: tuple[int, int] | None) -> Json:
    """The document with the properties that the supervisor owns."""
    owned: Json = {"state": state.value}
    if time_range_ns is not None:
        start_ns, end_ns = time_range_ns
        owned |= {
            "timeRange": {"startTime": start_ns, "endTime": end_ns},
            "startTimestamp": iso_from_ns(start_ns),
            "endTimestamp": iso_from_ns(end_ns),
        }
    kept = {name: value for name, value in document.items() if name not in _OWNED}
    return check(kept | owned)


_OWNED: Final = {"state", "timeRange", "startTimestamp", "endTimestamp"}


def iso_from_ns(time_ns: int) -> str:
    """ISO 8601 in UTC with all nine digits: datetime stops at microseconds."""
    seconds, fraction_ns = divmod(time_ns, NS_PER_S)
    second = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    return f"{second:%Y-%m-%dT%H:%M:%S}.{fraction_ns:09d}Z"


def _check_depth(raw: bytes) -> None:
    """Refuses deep nesting and very many containers before the parser meets them.

    Few brackets, those in strings included, can't nest deeply.
    """
    if raw.count(b"{") + raw.count(b"[") <= limits.SESSION_JSON_MAX_DEPTH:
        return
    # Without a loop over every byte or string, which would keep a supervisor from serving others.
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(_ROUND, _NO_BRACKETS)
    if (count := brackets.count(b"(")) > limits.SESSION_JSON_MAX_CONTAINERS:
        raise _bad("$", f"it has {count} objects and lists, more than {limits.SESSION_JSON_MAX_CONTAINERS}")
    for _ in range(limits.SESSION_JSON_MAX_DEPTH):
        # Takes the innermost pairs away.
        brackets = brackets.replace(b"()", b"")
    # What is left is too deep, or is not in pairs, which the parser refuses: if it does not recurse too deeply.
    if b"()" in brackets or brackets.count(b"(") > limits.SESSION_JSON_MAX_DEPTH:
        raise _bad("$", f"it nests deeper than {limits.SESSION_JSON_MAX_DEPTH}")


_ROUND: Final = bytes.maketrans(b"{[}]", b"(())")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"{[}]"))


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    document = dict(pairs)
    if len(document) != len(pairs):
        counts = collections.Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise _bad(f"$..{repeated}", "the property stands there twice")
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _bad("$", f"{text[:20]} is too large a number")
    return number


def _no_constant(name: str) -> None:
    raise _bad("$", f"JSON has no {name}")


def _bad(where: str, reason: str) -> errors.BadSessionJson:
    return errors.BadSessionJson(where=quoting.cut(where, quoting.NAME_MAX_CHARS), reason=reason)
