"""What the checks of all sections share: the rule that a value breaks, and the error for the first rule broken."""

from collections.abc import Iterable
from typing import Final, Protocol

from rta_wire import errors

NOT_ABOVE_0: Final = "it is not above 0"
BELOW_0: Final = "it is below 0"

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
