"""Finds the value of a property in Session JSON by its path: `identifier`, `details.X`, `extDetails.G.X`. Pure."""

import functools
from typing import Any, Final

from rta_wire.session import Json

LOOKED_UP_MAX_CHARS: Final = 256
"""Of a path whose parts are looked up; with those of longer ones the names of an object are compared."""


def value_at(document: Json, path: str) -> Any:
    """The value of a property, None where it is not there.

    Names may have dots in them: the longest name that an object has goes before a shorter one. A path of any length
    with any number of dots costs no more than a look at the names of the objects that it leads through.
    """
    return _find(document, path, 0, _dots(path))


def _find(value: Any, path: str, start: int, dots: int) -> Any:
    """The value of the path from `start` on; the whole of it has so many dots."""
    if not isinstance(value, dict):
        return None
    if dots > len(value) or len(path) > LOOKED_UP_MAX_CHARS:
        return _find_by_comparison(value, path, start, dots)
    if path[start:] in value:
        return value[path[start:]]
    end = path.rfind(".", start)
    while end > start:
        inner = value.get(path[start:end])
        if inner is not None and (found := _find(inner, path, end + 1, dots)) is not None:
            return found
        end = path.rfind(".", start, end)
    return None


def _find_by_comparison(value: Json, path: str, start: int, dots: int) -> Any:
    """The same, where the object has fewer names than the path has parts."""
    rest = len(path) - start
    names = [
        name
        for name in value
        if path.startswith(name, start) and (len(name) == rest or (name and path[start + len(name)] == "."))
    ]
    for name in sorted(names, key=len, reverse=True):
        inner = value[name]
        if len(name) == rest:
            return inner
        if inner is not None and (found := _find(inner, path, start + len(name) + 1, dots)) is not None:
            return found
    return None


@functools.lru_cache(maxsize=256)
def _dots(path: str) -> int:
    return path.count(".")
