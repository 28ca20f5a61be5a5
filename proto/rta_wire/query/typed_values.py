"""Values of properties as the dialect compares them: numbers as numbers, times as instants, texts as texts. Pure.

A boolean is no number. Text that is a date or a time in ISO 8601 is compared as an instant with other such text, in
whatever zone and precision it is written, and as text with everything else.
"""

import functools
import re
from typing import Any, Final

from rta_wire import time_grammar
from rta_wire.session import State

_ISO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,12})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_ISO_MIN_CHARS: Final = len("2026-11-02")
_ISO_MAX_CHARS: Final = len("2026-11-02T14:00:00.123456789012+00:00")

_BOOLEAN, _NUMBER, _TIME, _TEXT, _OTHER = range(5)
"""The order of types in a sorted list; what has no value comes after all of them."""

_STATES: Final = {state.value: state.number for state in State}


@functools.lru_cache(maxsize=65_536)
def instant_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of a date or time in ISO 8601, in UTC where it has no zone; None for any other text."""
    if not _ISO_MIN_CHARS <= len(text) <= _ISO_MAX_CHARS or not _ISO_TIME.fullmatch(text):
        return None
    try:
        return time_grammar.parse_ns(text, 0)
    except ValueError:
        return None


def is_equal(value: Any, literal: Any) -> bool:
    """Whether a value equals a literal that is not null."""
    if isinstance(value, bool) or isinstance(literal, bool):
        return value is literal
    if isinstance(value, str) and isinstance(literal, str):
        if value == literal:
            return True
        instant = instant_ns(literal)
        return instant is not None and instant_ns(value) == instant
    return _is_number(value) and _is_number(literal) and bool(value == literal)


def order(value: Any, literal: Any) -> int | None:
    """Below 0, 0 or above 0 as the value is before, equal to or after the literal; None where they have no order."""
    if isinstance(value, bool) or isinstance(literal, bool):
        return _sign(value, literal) if isinstance(value, bool) and isinstance(literal, bool) else None
    if isinstance(value, str) and isinstance(literal, str):
        instants = instant_ns(value), instant_ns(literal)
        return _sign(*instants) if None not in instants else _sign(value, literal)
    return _sign(value, literal) if _is_number(value) and _is_number(literal) else None


def sort_key(value: Any) -> tuple[int, Any]:
    """A key by which values of any types can be sorted: equal types by value, the others by type."""
    if isinstance(value, bool):
        return _BOOLEAN, value
    if _is_number(value):
        return _NUMBER, value
    if isinstance(value, str):
        instant = instant_ns(value)
        return (_TEXT, value) if instant is None else (_TIME, instant)
    return _OTHER, 0


def state_sort_key(value: Any) -> tuple[int, Any]:
    """The key of a state: by its number, so that open sessions come before closed ones."""
    return (_NUMBER, _STATES[value]) if isinstance(value, str) and value in _STATES else sort_key(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sign(value: Any, other: Any) -> int:
    return int(value > other) - int(value < other)
