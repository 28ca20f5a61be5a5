"""Finds the value of a property in Session JSON by its path: `identifier`, `details.X`, `extDetails.G.X`. Pure."""

from typing import Any

from rta_wire.session import Json


def value_at(document: Json, path: str) -> Any:
    """The value of a property, None where it is not there.

    Names may have dots in them: the longest name that an object has goes before a shorter one.
    """
    return _find(document, path)


def _find(value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    end = path.rfind(".")
    while end > 0:
        inner = value.get(path[:end])
        if inner is not None and (found := _find(inner, path[end + 1 :])) is not None:
            return found
        end = path.rfind(".", 0, end)
    return None
