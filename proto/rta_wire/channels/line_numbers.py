"""Lines of a TOML or JSON text on which values stand, for errors about values that could be parsed."""

import json
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final

from rta_wire import quoting
from rta_wire.channels.plain_errors import Path

_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s"\[\]{},:]+')
_TOML_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{},=]|[^\s"\'\[\]{},=#]+',
    re.DOTALL,
)
_TOML_HEADER: Final = re.compile(r"[ \t]*(\[\[?)\s*([A-Za-z0-9_.\"' -]+?)\s*\]\]?[ \t]*(?:#[^\n]*)?(?:\r?\n|$)")
_TOML_KEY: Final = re.compile(r"[ \t]*([A-Za-z0-9_\"'.-]+(?:[ \t]*\.[ \t]*[A-Za-z0-9_\"'-]+)*)[ \t]*=[ \t]*")
_LONG_NUMBER: Final = re.compile(r"[0-9a-fA-F_]{3000,}")
_QUOTES: Final = "\"' "


class LineIndex:
    """The lines of all values in a text."""

    def __init__(self, text: str, places: Iterable[tuple[Path, int]]) -> None:
        """`places`: the path of every value, and where in the text it begins, in their order."""
        self._lines: dict[Path, int] = {(): 1}
        self.repeated: dict[Path, int] = {}
        """Values whose key stood in the same table before, with their lines."""
        line, counted = 1, 0
        for path, offset in places:
            line += text.count("\n", counted, offset)
            counted = offset
            if path in self._lines and path and not any(path[:depth] in self.repeated for depth in range(len(path))):
                self.repeated[path] = line
            self._lines.setdefault(path, line)

    def line(self, path: Path) -> int:
        """The line on which a value begins, or the nearest value around it that is there."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def of_json(text: str) -> LineIndex:
    """The lines of a valid JSON text."""
    return LineIndex(text, _values(text, _JSON_TOKEN, 0, ()))


def of_toml(text: str) -> LineIndex:
    """The lines of a valid TOML text."""
    return LineIndex(text, _toml_places(text))


def of_long_number(text: str) -> int | None:
    """The line on which the first number stands that has thousands of digits."""
    number = _LONG_NUMBER.search(text)
    return None if number is None else text.count("\n", 0, number.start()) + 1


def _toml_places(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    counts: dict[str, int] = {}
    offset = 0
    while offset < len(text):
        if (header := _TOML_HEADER.match(text, offset)) is not None:
            name, *inner = (part.strip(_QUOTES) for part in header[2].split("."))
            if header[1] == "[[" and not inner:
                if name not in counts:
                    yield (name,), header.start(1)
                counts[name] = counts.get(name, -1) + 1
            # A table within an array belongs to the item that was begun last.
            item: Path = (name, counts[name]) if name in counts else (name,)
            table = (*item, *inner)
            yield from _dotted(item, inner, header.start(1))
            yield table, header.start(1)
            offset = header.end()
        elif (key := _TOML_KEY.match(text, offset)) is not None:
            parts = [part.strip(_QUOTES) for part in key[1].split(".")]
            yield from _dotted(table, parts, key.start(1))
            end = yield from _values(text, _TOML_TOKEN, key.end(), (*table, *parts))
            offset = _next_line(text, end)
        else:
            offset = _next_line(text, offset)


def _dotted(table: Path, parts: Sequence[str], offset: int) -> Iterator[tuple[Path, int]]:
    """The tables that a dotted key, which begins at `offset`, has before its last part."""
    for depth in range(1, len(parts)):
        yield (*table, *parts[:depth]), offset


def _next_line(text: str, offset: int) -> int:
    return text.find("\n", offset) + 1 or len(text)


def _values(text: str, tokens: re.Pattern[str], start: int, root: Path) -> Generator[tuple[Path, int], None, int]:
    """The path of a value that begins at `start`, and of every value within it, and where each begins. Gives where it
    ends. `root`: the path of the value itself."""
    path = list(root)
    is_object: list[bool] = []
    key: Any = None
    for token in tokens.finditer(text, start):
        sign = token[0]
        if sign in ("]", "}"):
            is_object.pop()
            path.pop()
        elif sign == ",":
            if is_object[-1]:
                key = None
            else:
                path[-1] = int(path[-1]) + 1
        elif is_object and is_object[-1] and key is None:
            key = (
                quoting.encodable(json.loads(sign)) if tokens is _JSON_TOKEN else sign.partition(".")[0].strip(_QUOTES)
            )
            path[-1] = key
        elif sign not in (":", "=") and not sign.startswith("#"):
            yield tuple(path), token.start()
            if sign in ("[", "{"):
                is_object.append(sign == "{")
                path.append("" if sign == "{" else 0)
                key = None
        if not is_object:
            return token.end()
    return len(text)
