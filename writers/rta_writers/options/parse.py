"""Parses options as Spark hands them over, as texts under names in any case. A wrong one is refused by its name."""

import difflib
import enum
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from rta_wire import errors, name_checks
from rta_wire.channels import model

ValueParser = Callable[[str], Any]
"""Turns the text of an option into its value. Raises ValueError with what it should be."""

Choice = TypeVar("Choice", bound=enum.StrEnum)

SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark uses itself and passes on to the data source nevertheless."""

QUOTED_MAX_CHARS: Final = 100
_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = QUOTED_MAX_CHARS

EVERY_CHANNEL: Final = "*"
_BOOLEANS: Final = {"true": True, "false": False}


def parse_options(options: Mapping[str, Any], parsers: Mapping[str, ValueParser]) -> dict[str, Any]:
    """Values by the proper names of their options. An unknown name or a wrong value is an error.

    Numbers and booleans are taken as their texts, as Spark takes them.
    """
    if not isinstance(options, Mapping):
        raise errors.Usage(
            reason=f"Options are texts by name, not {type(options).__name__}. Pass those of an open session: "
            "session.options"
        )
    proper_names = {name.lower(): name for name in parsers}
    values = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise errors.Usage(reason=f"The name of an option is text, not {type(name).__name__}")
        folded = name.lower()
        if folded in SPARK_OPTIONS:
            continue
        if folded not in proper_names:
            raise errors.Usage(reason=f"Format 'rta' has no option {quote(name)}.{suggest(name, parsers)}")
        option = proper_names[folded]
        try:
            values[option] = parsers[option](_option_text(option, value))
        except ValueError as error:
            raise errors.Usage(reason=f"Option {option!r} is {quote(value)}: {error}") from error
    return values


def _option_text(option: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        hint = ": make it text with json.dumps" if isinstance(value, Mapping) else ""
        raise errors.Usage(reason=f"Option {option!r} is text, a number or a boolean, not {type(value).__name__}{hint}")
    value.encode()  # raises UnicodeEncodeError, a ValueError, which names the place
    return value


def quote(value: Any) -> str:
    """Any value as a short text for an error."""
    try:
        return _REPR.repr(value)[: 2 * QUOTED_MAX_CHARS]
    except ValueError:
        return "a number of thousands of digits"  # which Python does not print


def suggest(name: str, choices: Iterable[str]) -> str:
    """A sentence with the choice that is nearest to a wrong name, or with all of them where none is near."""
    choices = list(choices)
    return suggest_nearest(name, choices) or f" It knows {', '.join(sorted(choices))}."


def suggest_nearest(name: str, choices: Iterable[str]) -> str:
    """A sentence with the choice that is nearest to a wrong name; empty where none is near."""
    by_folded = {choice.lower(): str(choice) for choice in choices}
    nearest = difflib.get_close_matches(name[:QUOTED_MAX_CHARS].lower(), by_folded, n=1)
    return f" Did you mean {by_folded[nearest[0]]!r}?" if nearest else ""


def suggest_channel(name: str, channel_list: model.ChannelList) -> str:
    """A sentence with the channel that is nearest to a wrong name, or with how many there are where none is near."""
    hint = suggest(name, channel_list.by_name) if channel_list.channels else ""
    if "Did you mean" in hint:
        return hint
    count = len(channel_list.channels)
    return f" It has {count:,} {'channel' if count == 1 else 'channels'}: see `rta-supervisor channels show`."


def config_identifier(value: str) -> str:
    """The identifier of a configuration."""
    if not name_checks.is_config_identifier(value):
        raise ValueError("it is the identifier of a configuration, a hash, which the options of a session have")
    return value


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
            hint = suggest_nearest(value, [choice.value for choice in choices])
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


def names(value: str) -> tuple[str, ...]:
    """Names with commas between them, or a JSON list of them, each once."""
    if value.lstrip().startswith("["):
        try:
            listed = msgspec.json.decode(value, type=list[str])
        except msgspec.DecodeError as error:
            raise ValueError(f"it is a JSON list of names ({error})") from error
    else:
        listed = [part.strip() for part in value.split(",")]
    if not all(listed) or len(set(listed)) != len(listed):
        raise ValueError("it is a list of names with commas between, each of them once")
    return tuple(listed)


def json_object(value: str) -> dict[str, Any]:
    """A JSON object with values of any kind."""
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"it is a JSON object ({error})") from error
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error


def _json_pairs(value: str) -> dict[str, str]:
    return {name: text if isinstance(text, str) else str(text) for name, text in json_object(value).items()}


def _listed_pairs(value: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in value.split(","):
        name, equals, text = part.partition("=")
        if not (equals and name.strip() and text.strip()):
            raise ValueError("it is a JSON object, or name=value with commas between")
        if name.strip() in pairs:
            raise ValueError(f"it names {quote(name.strip())} twice")
        pairs[name.strip()] = text.strip()
    return pairs
