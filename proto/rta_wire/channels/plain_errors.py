"""What msgspec says about a plain value that is wrong, in words for people who write files by hand."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rta_wire import quoting
from rta_wire.channels.mistakes import NAME_MAX_CHARS
from rta_wire.channels.plain import PlainConversion

Path = tuple[str | int, ...]
"""Names and positions that lead to a value: ("channels", 3, "min")."""

_EXPECTED: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_COMMA_NUMBER: Final = re.compile(r"[+-]?[0-9]+,[0-9]+")
_TYPES: Final = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


class FieldProblem(msgspec.Struct, frozen=True):
    """The field of a struct that could not be read."""

    field: str
    """Empty where it is the struct as a whole."""
    path: Path
    """From the struct to the value."""
    reason: str


def explain(error: msgspec.ValidationError, values: Any, kind: type[msgspec.Struct]) -> FieldProblem:
    """The problem that an error is about. `values` could not be converted to the struct `kind`."""
    reason, _, place = str(error).partition(" - at ")
    path = _path(place.strip("`"))
    named = _FIELD.fullmatch(reason)
    field = str(path[0]) if path else named[2] if named else ""
    if named is not None:
        owner = f"its {path[0]}" if path else "it"
        sentence = _about_field(owner, PlainConversion if path else kind, named[1] == "contains unknown", named[2])
        return FieldProblem(field, (*path, named[2]), sentence)
    return FieldProblem(field, path, _about_value(reason, values, path))


def label(item: Any, what: str, place: int) -> str:
    """A channel or event of a list as errors name it, whatever it is."""
    name = item.get("name", item.get("id")) if isinstance(item, Mapping) else None
    return f"{what} {shown(name)}" if isinstance(name, str | int) else f"{what} number {place + 1}"


def shown(value: Any) -> str:
    """A value as errors show it."""
    return quoting.cut(repr(value), NAME_MAX_CHARS)


def _about_field(owner: str, kind: type[msgspec.Struct], is_unknown: bool, name: str) -> str:
    if not is_unknown:
        return f"{owner} has no {name!r}"
    names = [field.name for field in msgspec.structs.fields(kind)]
    nearest = difflib.get_close_matches(name[:NAME_MAX_CHARS].lower(), names, 1)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"There are {', '.join(names)}"
    return f"{owner} has a key {shown(name)}, which is not known. {hint}"


def _about_value(reason: str, values: Any, path: Path) -> str:
    expected = _EXPECTED.fullmatch(reason)
    types = [_TYPES[name] for name in expected[1].split(" | ") if name in _TYPES] if expected else []
    if not path:
        return f"it has to be {types[0]}" if types else reason
    if len(path) > 1 or not types:
        return f"its {path[0]}: {reason}"
    value = values[path[0]]
    hint = ". Write it with a point" if isinstance(value, str) and _COMMA_NUMBER.fullmatch(value) else ""
    return f"its {path[0]} is {shown(value)}, not {types[0]}{hint}"


def _path(place: str) -> Path:
    """The path that msgspec names, such as `$.channels[3].min`. Keys of tables are `[...]` and end it."""
    path: list[str | int] = []
    for part in place.removeprefix("$").replace("[", ".[").split("."):
        if part.startswith("["):
            number = part.strip("[]")
            if not number.isdecimal():
                break
            path.append(int(number))
        elif part:
            path.append(part)
    return tuple(path)
