"""What the checks of all sections share: the rule that a value breaks, the error for the first rule broken, and what no
number, text or name in any section may be.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from rta_supervisor.settings import sources
from rta_wire import errors, name_checks

NOT_ABOVE_0: Final = "it is not above 0"
BELOW_0: Final = "it is below 0"

SECONDS_MAX: Final = 100 * 365 * 86_400
"""The longest time that can be set: a hundred years. Redis refuses lifetimes whose milliseconds don't fit into 64 bits,
and the clocks of Python and PostgreSQL end before that."""

NUMBER_MAX: Final = 2**53
"""The highest number that can be set: server functions count in doubles, which are exact up to here."""

_LONGEST: Final = {"_s": SECONDS_MAX, "_ms": SECONDS_MAX * 1000, "_days": SECONDS_MAX // 86_400}
"""The highest value of a time, by the unit at the end of its name."""


Rule = tuple[str, bool, str]
"""The dotted name of a setting, whether its value is wrong, and why."""


class CheckedSection(Protocol):
    """A section whose values may be wrong though their types are right."""

    def check(self) -> None:
        """Raise `BadConfiguration` for a value that is impossible by itself or with others of the section."""


def refuse_first(rules: Iterable[Rule]) -> None:
    """Raise `BadConfiguration` for the first rule whose value is wrong."""
    for where, is_wrong, reason in rules:
        if is_wrong:
            raise errors.BadConfiguration(where=where, reason=reason)


def refuse_bad_name(where: str, check: Callable[[str], object], name: str) -> None:
    """Raise `BadConfiguration` for a name that `check` does not take: one of `rta_wire.name_checks`, which raises
    `BadName`."""
    try:
        check(name)
    except errors.BadName as error:
        raise errors.BadConfiguration(where=where, reason=str(error)) from error


def value_rules(value: Any, path: sources.SettingPath = ()) -> Iterator[Rule]:
    """What holds for every number and every text in the settings, whatever it is for."""
    if isinstance(value, msgspec.Struct | dict):
        items = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
        for name, item in items.items():
            yield from value_rules(item, (*path, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from value_rules(item, path)
    elif isinstance(value, str):
        has_control = name_checks.CONTROL_CHARACTERS.search(value) is not None
        yield sources.dotted(path), has_control, "it holds a control character, such as a line end. Remove it"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield (
            sources.dotted(path),
            isinstance(value, float) and not math.isfinite(value),
            f"it is {value}, not a finite number. Write one",
        )
        yield sources.dotted(path), *_size_rule(path[-1], value)


def _size_rule(name: str, value: float) -> tuple[bool, str]:
    for unit, longest in _LONGEST.items():
        if name.endswith(unit):
            return value > longest, f"it is more than a hundred years. Write {longest} or less"
    return abs(value) > NUMBER_MAX, f"it is beyond {NUMBER_MAX}, up to which Redis counts exactly. Write less"
