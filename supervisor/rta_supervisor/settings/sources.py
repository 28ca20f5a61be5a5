"""Makes one configuration of a file, credentials, the environment and the command line, and knows where each value came
from. What can be set, and what values make sense together, is the business of `settings`.
"""

import difflib
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from rta_wire import errors

ENVIRONMENT_PREFIX: Final = "RTA_"
CREDENTIAL_PREFIX: Final = "rta."
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""Where systemd says that it put them."""

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"

_HEADER: Final = re.compile(r"\s*\[+(?P<path>[^\[\]]+)\]+\s*(#.*)?")
_KEY: Final = re.compile(r"""\s*(?P<path>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")

_NAME: Final = re.compile(r"\w+(?:\.\w+)+")

Path_ = tuple[str, ...]
Document = dict[str, Any]
T = TypeVar("T")


class GivenValue(msgspec.Struct, frozen=True):
    """A value that somebody gave."""

    value: Any
    origin: str
    is_text: bool
    """Where there is only text, `5` is a number and `true` a truth. In a file the type has to be right."""


class SettingsSources:
    """Values by their path. The last one that was put counts."""

    def __init__(self) -> None:
        self.given: dict[Path_, GivenValue] = {}

    @classmethod
    def gather(cls, path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, Any]) -> Self:
        layers = cls()
        if path is not None:
            layers._put_file(path)
        if directory := environ.get(CREDENTIALS):
            layers._put_credentials(Path(directory))
        for name, text in environ.items():
            if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
                where = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
                layers._put(where, GivenValue(_list_or_text(name, text), name, is_text=True))
        for name, value in overrides.items():
            if value is not None:
                layers._put(tuple(name.split(".")), GivenValue(value, COMMAND_LINE, is_text=True))
        return layers

    def origin(self, path: Path_) -> str:
        """Where a value came from. A table or a list came from where its first part did."""
        if path in self.given:
            return self.given[path].origin
        return next((given.origin for one, given in self.given.items() if one[: len(path)] == path), DEFAULT)

    def label(self, name: str) -> str:
        """A setting for people: its origin and its dotted name."""
        origin = next((given.origin for path, given in self.given.items() if dotted(path) == name), DEFAULT)
        return name if origin == DEFAULT else f"{origin}: {name}"

    def traced(self, reason: str) -> str:
        """A reason, with the origin of each setting that it mentions."""
        origins = {dotted(path): given.origin for path, given in self.given.items()}
        mentioned = [f"{name} is set at {origins[name]}" for name in _NAME.findall(reason) if name in origins]
        return f"{reason} ({', '.join(mentioned)})" if mentioned else reason

    def convert(self, kind: type[T]) -> T:
        """All values as one structure, or an error with every problem."""
        document: Document = {}
        problems: list[tuple[str, str]] = []
        for path, given in self.given.items():
            try:
                _set(document, path, _converted(kind, path, given))
            except msgspec.ValidationError as error:
                problems.append((self.label(dotted(path)), _reason(error)))
        if not problems:
            try:
                return msgspec.convert(document, kind, strict=False)
            except msgspec.ValidationError as error:
                problems.append(("the configuration", _reason(error)))
        raise configuration_error(problems)

    def _put_file(self, path: Path) -> None:
        text, document = _read(path)
        lines = dict(_lines(text))
        for where, value in _leaves(document):
            line = next((lines[where[:size]] for size in range(len(where), 0, -1) if where[:size] in lines), None)
            self._put(where, GivenValue(value, f"{path}:{line}" if line else str(path), is_text=False))

    def _put_credentials(self, directory: Path) -> None:
        """systemd puts each secret into a file of its own. Ours are named after their settings: rta.http.token."""
        for file in sorted(directory.glob(f"{CREDENTIAL_PREFIX}*")):
            where = tuple(file.name.removeprefix(CREDENTIAL_PREFIX).split("."))
            self._put(where, GivenValue(file.read_text().strip(), f"credential {file.name}", is_text=True))

    def _put(self, path: Path_, given: GivenValue) -> None:
        for other in [one for one in self.given if one[: len(path)] == path or path[: len(one)] == one]:
            del self.given[other]
        self.given[path] = given


def dotted(path: Path_) -> str:
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def configuration_error(problems: list[tuple[str, str]]) -> errors.BadConfiguration:
    """One error for all of them; its sentence is about the first."""
    (where, reason), *further = problems
    if further:
        reason += f" ({len(further)} more: see rta-supervisor check-config)"
    return errors.BadConfiguration(where=where, reason=reason, problems=problems)


def _converted(kind: Any, path: Path_, given: GivenValue) -> Any:
    for depth, name in enumerate(path):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kinds = typing.get_type_hints(kind)
            if name not in kinds:
                raise msgspec.ValidationError(_unknown(path[: depth + 1], kinds))
            kind = kinds[name]
        elif typing.get_origin(kind) is dict:
            kind = typing.get_args(kind)[1]
        else:
            raise msgspec.ValidationError(f"{dotted(path[:depth])} is one value and has no {name!r}")
    value = msgspec.convert(given.value, kind, strict=not given.is_text)
    return msgspec.to_builtins(value)


def _unknown(path: Path_, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.4)
    hint = f"Did you mean {dotted((*path[:-1], near[0]))}?" if near else f"There is {', '.join(known)}."
    return f"there is no such setting. {hint}"


def _reason(error: msgspec.ValidationError) -> str:
    text = str(error)
    return text[0].lower() + text[1:]


def _read(path: Path) -> tuple[str, Document]:
    try:
        text = path.read_text()
        return text, tomllib.loads(text)
    except OSError as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it is not TOML: {error}") from error


def _lines(text: str) -> Iterator[tuple[Path_, int]]:
    """Where each key and table of a TOML text stands, as far as can be told line by line."""
    table: Path_ = ()
    for number, line in enumerate(text.splitlines(), 1):
        found = _HEADER.fullmatch(line) or _KEY.match(line)
        if found is None:
            continue
        try:
            path = tuple(_only_path(tomllib.loads(f"{found['path']} = 0")))
        except tomllib.TOMLDecodeError:
            continue
        if found.re is _HEADER:
            table = path
            yield table, number
        else:
            yield (*table, *path), number


def _only_path(document: Any) -> Iterator[str]:
    while isinstance(document, dict):
        [(name, document)] = document.items()
        yield name


def _leaves(document: Document, above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _list_or_text(name: str, value: str) -> Any:
    """Lists are written as in the file: RTA_CONTROL__PRINCIPALS='["a", "b"]'."""
    if not value.startswith("["):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise errors.BadConfiguration(where=name, reason=f"it is not a TOML list: {error}") from error


def _set(document: Document, path: Path_, value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value
