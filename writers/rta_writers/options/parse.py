"""Options as Spark hands them over: texts under names without case. Each is turned into its type or refused by name."""

import difflib
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rta_wire import errors

ValueParser = Callable[[str], Any]
Named = TypeVar("Named", bound=enum.StrEnum)

SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark takes for itself and hands on nevertheless."""

_TRUE_AND_FALSE: Final = {"true": True, "false": False}


def parse_options(given: Mapping[str, str], known: Mapping[str, ValueParser]) -> dict[str, Any]:
    """The options that were given, by their proper names. An unknown name or a wrong value is an error."""
    proper = {name.lower(): name for name in known}
    found = {}
    for name, text in given.items():
        folded = name.lower()
        if folded in SPARKS_OWN:
            continue
        if folded not in proper:
            raise errors.Usage(reason=f"Format 'rta' has no option {name!r}.{suggest(name, known)}")
        option = proper[folded]
        try:
            found[option] = known[option](text)
        except ValueError as error:
            raise errors.Usage(reason=f"Option {option!r} is {text!r}: {error}") from error
    return found


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, or at all of them where none is near."""
    by_folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_folded, n=1)
    if close:
        return f" Did you mean {by_folded[close[0]]!r}?"
    return f" It knows {', '.join(sorted(by_folded.values()))}."


def text(given: str) -> str:
    if not given:
        raise ValueError("it is empty")
    return given


def boolean(given: str) -> bool:
    if given.lower() not in _TRUE_AND_FALSE:
        raise ValueError("it is true or false")
    return _TRUE_AND_FALSE[given.lower()]


def integer(lowest: int, highest: int) -> ValueParser:
    """A whole number within bounds."""

    def parse(given: str) -> int:
        try:
            number = int(given)
        except ValueError:
            raise ValueError("it is a whole number") from None
        if not lowest <= number <= highest:
            raise ValueError(f"it is between {lowest} and {highest}")
        return number

    return parse


def seconds(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        raise ValueError("it is a number of seconds") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError("it is a number of seconds above 0")
    return number


def one_of(kind: type[Named]) -> Callable[[str], Named]:
    """One of the words of an enumeration."""

    def parse(given: str) -> Named:
        try:
            return kind(given.lower())
        except ValueError:
            hint = suggest(given, [one.value for one in kind])
            raise ValueError(f"it is one of {', '.join(kind)}.{hint}") from None

    return parse


def table(value: ValueParser) -> ValueParser:
    """Names with a value each, as a JSON object or as `name=value, name=value`."""

    def parse(given: str) -> dict[str, Any]:
        pairs = _object(given) if given.lstrip().startswith("{") else _listed(given)
        return {name: value(text) for name, text in pairs.items()}

    return parse


EVERY_CHANNEL: Final = "*"


def per_channel(value: ValueParser) -> ValueParser:
    """One value for all channels, or a table of channels with `*` for all others."""
    whole = table(value)

    def parse(given: str) -> dict[str, Any]:
        if "=" in given or given.lstrip().startswith("{"):
            named: dict[str, Any] = whole(given)
            return named
        return {EVERY_CHANNEL: value(given)}

    return parse


def json_object(given: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"it is a JSON object ({error})") from error


def _object(given: str) -> dict[str, str]:
    return {name: value if isinstance(value, str) else str(value) for name, value in json_object(given).items()}


def _listed(given: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in given.split(","):
        name, equals, value = part.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise ValueError("it is a JSON object, or name=value with commas between")
        if name.strip() in found:
            raise ValueError(f"it names {name.strip()!r} twice")
        found[name.strip()] = value.strip()
    return found
