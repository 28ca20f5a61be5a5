"""Parses options as Spark hands them over, as texts under names in any case. A wrong one is refused by its name."""

import difflib
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rta_wire import errors

ValueParser = Callable[[str], Any]
"""Turns the text of an option into its value. Raises ValueError with what it should be."""

Choice = TypeVar("Choice", bound=enum.StrEnum)

SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark uses itself and passes on to the data source nevertheless."""

EVERY_CHANNEL: Final = "*"
_BOOLEANS: Final = {"true": True, "false": False}


def parse_options(options: Mapping[str, str], parsers: Mapping[str, ValueParser]) -> dict[str, Any]:
    """Values by the proper names of their options. An unknown name or a wrong value is an error."""
    proper_names = {name.lower(): name for name in parsers}
    values = {}
    for name, value in options.items():
        folded = name.lower()
        if folded in SPARK_OPTIONS:
            continue
        if folded not in proper_names:
            raise errors.Usage(reason=f"Format 'rta' has no option {name!r}.{suggest(name, parsers)}")
        option = proper_names[folded]
        try:
            values[option] = parsers[option](value)
        except ValueError as error:
            raise errors.Usage(reason=f"Option {option!r} is {value!r}: {error}") from error
    return values


def suggest(name: str, choices: Iterable[str]) -> str:
    """A sentence with the choice that is nearest to a wrong name, or with all of them where none is near."""
    by_folded = {choice.lower(): choice for choice in choices}
    nearest = difflib.get_close_matches(name.lower(), by_folded, n=1)
    if nearest:
        return f" Did you mean {by_folded[nearest[0]]!r}?"
    return f" It knows {', '.join(sorted(by_folded.values()))}."


def text(value: str) -> str:
    """Any text but an empty one."""
    if not value:
        raise ValueError("it is empty")
    return value


def boolean(value: str) -> bool:
    """`true` or `false`, in any case."""
    if value.lower() not in _BOOLEANS:
        raise ValueError("it is true or false")
    return _BOOLEANS[value.lower()]


def integer(lowest: int, highest: int) -> ValueParser:
    """A parser of whole numbers within bounds."""

    def parse(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("it is a whole number") from None
        if not lowest <= number <= highest:
            raise ValueError(f"it is between {lowest} and {highest}")
        return number

    return parse


def seconds(value: str) -> float:
    """A finite number of seconds above 0."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError("it is a number of seconds") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError("it is a number of seconds above 0")
    return number


def one_of(choices: type[Choice]) -> Callable[[str], Choice]:
    """A parser of the values of an enumeration, in any case."""

    def parse(value: str) -> Choice:
        try:
            return choices(value.lower())
        except ValueError:
            hint = suggest(value, [choice.value for choice in choices])
            raise ValueError(f"it is one of {', '.join(choices)}.{hint}") from None

    return parse


def table(parse_value: ValueParser) -> ValueParser:
    """A parser of names with a value each, as a JSON object or as `name=value, name=value`."""

    def parse(value: str) -> dict[str, Any]:
        pairs = _json_pairs(value) if value.lstrip().startswith("{") else _listed_pairs(value)
        return {name: parse_value(text) for name, text in pairs.items()}

    return parse


def per_channel(parse_value: ValueParser) -> ValueParser:
    """A parser of one value for all channels, or of a table of channels with `*` for all others."""
    parse_table = table(parse_value)

    def parse(value: str) -> dict[str, Any]:
        if "=" in value or value.lstrip().startswith("{"):
            by_channel: dict[str, Any] = parse_table(value)
            return by_channel
        return {EVERY_CHANNEL: parse_value(value)}

    return parse


def json_object(value: str) -> dict[str, Any]:
    """A JSON object with values of any kind."""
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"it is a JSON object ({error})") from error


def _json_pairs(value: str) -> dict[str, str]:
    return {name: text if isinstance(text, str) else str(text) for name, text in json_object(value).items()}


def _listed_pairs(value: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in value.split(","):
        name, equals, text = part.partition("=")
        if not (equals and name.strip() and text.strip()):
            raise ValueError("it is a JSON object, or name=value with commas between")
        if name.strip() in pairs:
            raise ValueError(f"it names {name.strip()!r} twice")
        pairs[name.strip()] = text.strip()
    return pairs
