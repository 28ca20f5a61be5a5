"""The metamodel: which properties sessions have, what can be done with each, and which values occur. Pure."""

from collections.abc import Iterable
from typing import Any, Final

from rta_supervisor.gateway.rest.sessions.listed_session import SAMPLES, SAMPLES_TIME, STATES, ListedSession
from rta_wire.session import Json

VALUES_MAX: Final = 100
"""Values of a property that are listed. Where there are more, none is: a list of some would look like all of them."""

NAMES_MAX: Final = 1000
TEXT_MAX_CHARS: Final = 200
_BOTH: Final = {"filter": True, "sort": True}
_PLAIN: Final = {
    "identity": "The name of a session for programs.",
    "identifier": "The name of a session for people.",
    "timestamp": "When it began.",
    "type": "",
    "group": "",
    "version": "",
    "quality": "From 0 to 1.",
    "timeRange.startTime": "The time of its first sample, in ns.",
    "timeRange.endTime": "The time of its last sample, in ns.",
    SAMPLES: "How many samples were written.",
    SAMPLES_TIME: "When there were so many.",
}
_WITH_VALUES: Final = ("type", "group", "version")


class PropertyCensus:
    """Counts names and values of properties."""

    def __init__(self) -> None:
        self.plain: dict[str, dict[Any, None]] = {name: {} for name in _WITH_VALUES}
        self.details: dict[str, dict[Any, None]] = {}
        self.extensions: dict[str, dict[str, dict[Any, None]]] = {}

    def add_all(self, rows: Iterable[ListedSession]) -> "PropertyCensus":
        for row in rows:
            document = row.document()
            for name in _WITH_VALUES:
                _note(self.plain, name, document.get(name))
            _note_all(self.details, document.get("details"))
            extensions = document.get("extDetails")
            for group, values in extensions.items() if isinstance(extensions, dict) else ():
                if group in self.extensions or len(self.extensions) < NAMES_MAX:
                    _note_all(self.extensions.setdefault(group, {}), values)
        return self

    def to_json(self) -> Json:
        """What `/session-metamodel` says."""
        plain = {name: _descriptor(self.plain.get(name, {})) for name in _PLAIN}
        return plain | {
            "state": {**_BOTH, "capabilities": _BOTH, "constraints": {"values": list(STATES)}},
            "details": {name: _descriptor(values) for name, values in sorted(self.details.items())},
            "extDetails": {
                group: {
                    "label": group,
                    "properties": {name: _descriptor(values) for name, values in sorted(properties.items())},
                }
                for group, properties in sorted(self.extensions.items())
            },
        }

    def properties(self, text: str) -> list[Json]:
        """What `/session-metamodel/properties` says: those whose id has a text in it, in any case."""
        descriptions = (
            _PLAIN
            | {"state": "Whether it is open, and how it ended."}
            | {f"details.{name}": "" for name in sorted(self.details)}
            | {
                f"extDetails.{group}.{name}": ""
                for group, properties in sorted(self.extensions.items())
                for name in sorted(properties)
            }
        )
        folded = text.casefold()
        return [
            {"id": name, "label": _label(name), "description": description}
            for name, description in descriptions.items()
            if folded in name.casefold()
        ]


def _label(name: str) -> str:
    """What people call a property: the name of a detail without where it stands."""
    root, _, rest = name.partition(".")
    return rest.partition(".")[2] if root == "extDetails" else rest if root == "details" else name


def _note_all(names: dict[str, dict[Any, None]], values: Any) -> None:
    for name, value in values.items() if isinstance(values, dict) else ():
        if name in names or len(names) < NAMES_MAX:
            _note(names, name, value)


def _note(names: dict[str, dict[Any, None]], name: str, value: Any) -> None:
    if not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > TEXT_MAX_CHARS):
        return
    values = names.setdefault(name, {})
    if len(values) <= VALUES_MAX:
        # True equals 1 as a key of a dict: their types tell them apart.
        values[type(value), value] = None


def _descriptor(values: dict[Any, None]) -> Json:
    descriptor: Json = {"capabilities": _BOTH}
    if 0 < len(values) <= VALUES_MAX:
        kept = [value for _, value in values]
        descriptor["constraints"] = {"values": sorted(kept, key=lambda value: (str(type(value)), value))}
    else:
        descriptor["constraints"] = {}
    return descriptor
