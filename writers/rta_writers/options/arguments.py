"""Arguments of public calls: taken as they are, converted where nothing is lost, or refused by their names.

Checks types and ranges. Which names are valid is left to `rta_wire.name_checks`, the Session JSON to
`rta_wire.session`.
"""

import math
import operator
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from rta_wire import errors, limits, time_grammar
from rta_wire.control.totals import COUNT_MAX, Totals
from rta_writers.options import parse

_INTEGER_MAX_BITS: Final = 1024
"""Integers of a Session JSON: those beyond are not even doubles to other readers."""


def refuse(name: str, value: Any, wanted: str) -> errors.Usage:
    """The error for an argument that is not what it has to be."""
    return errors.Usage(reason=f"Argument {name!r} is {parse.quote(value)}: it has to be {wanted}")


def text(name: str, value: Any) -> str:
    """Text that can be encoded; it may be empty."""
    if not isinstance(value, str):
        raise refuse(name, value, "text")
    if not is_encodable(value):
        raise refuse(name, value, "text that is valid UTF-8")
    return value


def text_or_number(name: str, value: Any) -> str:
    """Text that can be encoded, or a number as its text."""
    is_number = isinstance(value, (int, float, np.number, np.bool_))
    if is_number and not (isinstance(value, int) and value.bit_length() > _INTEGER_MAX_BITS):
        return str(value)
    return text(name, value)


def path(name: str, value: Any) -> Path:
    """The path of a file, as text or as a path."""
    if not isinstance(value, (str, PurePath)):
        raise refuse(name, value, "a path: text or a pathlib.Path")
    return Path(value)


def not_empty(name: str, value: Any) -> str:
    """Text that can be encoded and is not empty."""
    if not text(name, value):
        raise refuse(name, value, "text that is not empty")
    return str(value)


def is_encodable(value: str) -> bool:
    """Whether a text can be encoded as UTF-8: one with half of a surrogate pair can't."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def boolean(name: str, value: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise refuse(name, value, "True or False")
    return value


def whole_number(name: str, value: Any, lowest: int, highest: int) -> int:
    """An integer of Python or numpy within bounds."""
    wanted = f"a whole number between {lowest} and {highest}"
    if isinstance(value, bool):
        raise refuse(name, value, wanted)
    try:
        number = operator.index(value)
    except TypeError:
        raise refuse(name, value, wanted) from None
    if not lowest <= number <= highest:
        raise refuse(name, value, wanted)
    return number


def seconds(name: str, value: Any) -> float:
    """A number of seconds above 0. Infinity is no limit."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number > 0:
            return number
    raise refuse(name, value, "a number of seconds above 0")


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of several texts."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        hint = parse.suggest_nearest(value, choices) if isinstance(value, str) else ""
        raise refuse(name, value, f"one of {', '.join(choices)}.{hint}")
    return value


def iterable(name: str, value: Any, wanted: str = "several, as in a list") -> Iterable[Any]:
    """What can be gone through, texts aside."""
    try:
        if not isinstance(value, (str, bytes)):
            items: Iterator[Any] = iter(value)
            return items
    except TypeError:
        pass
    raise refuse(name, value, wanted)


def totals(name: str, value: Any) -> Totals | None:
    """Totals whose numbers can be sent, or None."""
    if value is None:
        return None
    if not isinstance(value, Totals):
        raise refuse(name, value, "Totals of rta_wire.control.totals, such as Totals(samples=1000)")
    times_ns = [
        None if ns is None else _time_ns(f"{name}.start_ns and end_ns", ns) for ns in (value.start_ns, value.end_ns)
    ]
    return Totals(
        whole_number(f"{name}.bursts", value.bursts, 0, COUNT_MAX),
        whole_number(f"{name}.samples", value.samples, 0, COUNT_MAX),
        whole_number(f"{name}.raw_bytes", value.raw_bytes, 0, COUNT_MAX),
        whole_number(f"{name}.stored_bytes", value.stored_bytes, 0, COUNT_MAX),
        *times_ns,
    )


def point_in_time_ns(name: str, value: Any) -> int:
    """Nanoseconds since 1970 of a datetime, of a text in the grammar of times, or as they are."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return time_grammar.clamp_ns((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000)
    if isinstance(value, str):
        try:
            return time_grammar.parse_ns(value, time.time_ns())
        except ValueError:
            raise refuse(name, value, f"{time_grammar.GRAMMAR}; or a datetime") from None
    if not hasattr(value, "__index__"):
        raise refuse(name, value, f"{time_grammar.GRAMMAR}; or a datetime")
    return _time_ns(name, value)


def _time_ns(name: str, value: Any) -> int:
    return whole_number(name, value, limits.TIME_NS_MIN, limits.TIME_NS_MAX)


def json_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of a session as plain values that JSON has. Numbers of numpy become those of Python."""
    converted: dict[str, Any] = _json_value(properties, "$", 1)
    return converted


def _json_value(value: Any, where: str, depth: int) -> Any:
    if value is None or isinstance(value, (bool, np.bool_)):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return _json_text(value, where)
    if isinstance(value, (int, np.integer)):
        if (number := int(value)).bit_length() > _INTEGER_MAX_BITS:
            raise _bad(where, "it is too large a number")
        return number
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise _bad(where, "JSON has no NaN or infinity: leave it out, or set it to None")
        return float(value)
    if depth > limits.SESSION_JSON_MAX_DEPTH:
        raise _bad(where, f"it nests deeper than {limits.SESSION_JSON_MAX_DEPTH}, or contains itself")
    if isinstance(value, Mapping):
        return {
            _json_name(name, where): _json_value(item, f"{where}.{name}", depth + 1) for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_json_value(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise _bad(
        where,
        f"it is {parse.quote(value)} ({type(value).__name__}), and JSON has texts, numbers, booleans, None, lists and "
        "dicts. Convert it first: a time with isoformat(), bytes with decode(), a set with sorted()",
    )


def _json_text(value: str, where: str) -> str:
    if not is_encodable(value):
        raise _bad(where, f"{parse.quote(value)} is not valid UTF-8")
    return str.__str__(value)  # an enumeration's member as its value


def _json_name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise _bad(where, f"the name {parse.quote(name)} is not text")
    return _json_text(name, where)


def _bad(where: str, reason: str) -> errors.BadSessionJson:
    return errors.BadSessionJson(where=where[: parse.QUOTED_MAX_CHARS].encode(errors="replace").decode(), reason=reason)
