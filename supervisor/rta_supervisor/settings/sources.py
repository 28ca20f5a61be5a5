"""Gathers values from a file, systemd's credentials, the environment and the command line, with the origin of each.

Which settings there are, and which values are possible, is decided in `settings` and its sections.
"""

import difflib
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from rta_wire import credentials, errors

ENVIRONMENT_PREFIX: Final = "RTA_"
CREDENTIAL_PREFIX: Final = "rta."
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""The variable in which systemd names the directory of its credentials."""

DEFAULT: Final = "default"
COMMAND_LINE: Final = "command line"
TOO_DEEP: Final = "values are nested too deeply"

_HEADER: Final = re.compile(r"\s*\[+(?P<path>[^\[\]]+)\]+\s*(#.*)?")
_KEY: Final = re.compile(r"""\s*(?P<path>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")

_NAME: Final = re.compile(r"\w+(?:\.\w+)+")

SettingPath = tuple[str, ...]
"""A setting by the names of its tables and its own: `("trim", "streams", "rig", "max_entries")`."""

Document = dict[str, Any]
T = TypeVar("T")


class SourcedValue(msgspec.Struct, frozen=True):
    """A value from one of the sources."""

    value: Any
    origin: str
    is_text: bool
    """Whether the source has text only, so that `5` may be a number. In a file the type has to be right."""


class SettingsSources:
    """Values of all sources by the path of their setting. Of two values for one setting the later source counts."""

    def __init__(self) -> None:
        self._values: dict[SettingPath, SourcedValue] = {}

    @classmethod
    def gather(cls, path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, Any]) -> Self:
        """Read all sources, the one that counts most last."""
        gathered = cls()
        if path is not None:
            gathered._put_file(path)
        if directory := environ.get(CREDENTIALS):
            gathered._put_credentials(Path(directory))
        for name, text in environ.items():
            if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
                setting = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
                credentials.check_utf8(ascii(name)[1:-1], name + text)
                gathered._put(setting, SourcedValue(_list_or_text(name, text), name, is_text=True))
        for name, value in overrides.items():
            if value is not None:
                gathered._put(tuple(name.split(".")), SourcedValue(value, COMMAND_LINE, is_text=True))
        return gathered

    def origin(self, path: SettingPath) -> str:
        """Where the value of a setting came from. The origin of a table is that of its first value."""
        if path in self._values:
            return self._values[path].origin
        inside = (value.origin for other, value in self._values.items() if other[: len(path)] == path)
        return next(inside, DEFAULT)

    def label(self, name: str) -> str:
        """The dotted name of a setting, with the origin of its value in front."""
        origin = next((value.origin for path, value in self._values.items() if dotted(path) == name), DEFAULT)
        return name if origin == DEFAULT else f"{origin}: {name}"

    def traced(self, reason: str) -> str:
        """The reason of an error, with the origin of each setting that it mentions."""
        origins = {dotted(path): value.origin for path, value in self._values.items()}
        mentioned = [f"{name} is set at {origins[name]}" for name in _NAME.findall(reason) if name in origins]
        return f"{reason} ({', '.join(mentioned)})" if mentioned else reason

    def convert(self, struct_type: type[T], environ: Mapping[str, str]) -> T:
        """All values as one struct. Raises one error with every value that has a wrong name or type, and every variable
        that is a setting but for one underscore."""
        document: Document = {}
        problems = list(_misspelt_variables(struct_type, environ))
        for path, value in self._values.items():
            try:
                _set(document, path, _converted(struct_type, path, value))
            except msgspec.ValidationError as error:
                problems.append((self.label(dotted(path)), _reason(error)))
        if not problems:
            try:
                return msgspec.convert(document, struct_type, strict=False)
            except msgspec.ValidationError as error:
                problems.append(("the configuration", _reason(error)))
        raise configuration_error(problems)

    def _put_file(self, path: Path) -> None:
        text, document = _read(path)
        line_numbers = dict(_line_numbers(text))
        for setting, value in _leaves(document):
            # A value inside an inline table has no line of its own: it stands in that of the table.
            tables = (setting[:size] for size in range(len(setting), 0, -1))
            number = next((line_numbers[table] for table in tables if table in line_numbers), None)
            self._put(setting, SourcedValue(value, f"{path}:{number}" if number else str(path), is_text=False))

    def _put_credentials(self, directory: Path) -> None:
        """Read systemd's credentials: a file for each secret, named after its setting, as in rta.http.token."""
        for file in sorted(directory.glob(f"{CREDENTIAL_PREFIX}*")):
            setting = tuple(file.name.removeprefix(CREDENTIAL_PREFIX).split("."))
            origin = f"credential {file.name}"
            try:
                text = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                raise errors.BadConfiguration(where=origin, reason=f"it can't be read: {reason}") from error
            self._put(setting, SourcedValue(text, origin, is_text=True))

    def _put(self, path: SettingPath, value: SourcedValue) -> None:
        """Set a value in place of earlier ones of the same setting, of a table around it and of settings inside it."""
        for other in list(self._values):
            if other[: len(path)] == path or path[: len(other)] == other:
                del self._values[other]
        self._values[path] = value


def dotted(path: SettingPath) -> str:
    """A setting as errors and the command line name it: names with other characters are in quotes."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def configuration_error(problems: list[tuple[str, str]]) -> errors.BadConfiguration:
    """One error for all problems (setting, reason); its sentence is about the first."""
    (where, reason), *further = problems
    if further:
        reason += f" ({len(further)} more: see rta-supervisor check-config)"
    return errors.BadConfiguration(where=where, reason=reason, problems=problems)


def _converted(struct_type: Any, path: SettingPath, value: SourcedValue) -> Any:
    """A value as the type that its setting has in a struct."""
    value_type = struct_type
    for depth, name in enumerate(path):
        if isinstance(value_type, type) and issubclass(value_type, msgspec.Struct):
            field_types = typing.get_type_hints(value_type)
            if name not in field_types:
                raise msgspec.ValidationError(_unknown(path, depth, field_types, value.origin))
            value_type = field_types[name]
        elif typing.get_origin(value_type) is dict:
            value_type = typing.get_args(value_type)[1]
        else:
            raise msgspec.ValidationError(f"{dotted(path[:depth])} is one value and has no {name!r}")
    return msgspec.to_builtins(msgspec.convert(value.value, value_type, strict=not value.is_text))


def _unknown(path: SettingPath, depth: int, names: Iterable[str], origin: str) -> str:
    """What is said about a path of which the name at `depth` is none of those that there are."""
    nearest = difflib.get_close_matches(path[depth], names, n=1, cutoff=0.4)
    if not nearest:
        return f"there is no such setting. There is {', '.join(names)}."
    meant = (*path[:depth], nearest[0], *path[depth + 1 :])
    spelling = variable(meant) if origin.startswith(ENVIRONMENT_PREFIX) else dotted(meant)
    return f"there is no such setting. Did you mean {spelling}?"


def variable(path: SettingPath) -> str:
    """The variable of the environment that overrides a setting."""
    return ENVIRONMENT_PREFIX + "__".join(path).upper()


def _misspelt_variables(struct_type: Any, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables such as RTA_HTTP_TOKEN, which would set nothing, with the one that is meant. Other variables that begin
    with RTA_ may be for other programs."""
    for section, section_type in typing.get_type_hints(struct_type).items():
        for name in typing.get_type_hints(section_type):
            misspelt = f"{ENVIRONMENT_PREFIX}{section}_{name}".upper()
            if misspelt in environ:
                meant = variable((section, name))
                yield misspelt, f"it sets nothing: two underscores divide section and key. Did you mean {meant}?"


def _reason(error: msgspec.ValidationError) -> str:
    text = str(error)
    return text[0].lower() + text[1:]


def _read(path: Path) -> tuple[str, Document]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except OSError as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it can't be read: {error.strerror}") from error
    except ValueError as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it is not TOML: {error}") from error
    except RecursionError as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it is not TOML: {TOO_DEEP}") from error


def _line_numbers(text: str) -> Iterator[tuple[SettingPath, int]]:
    """Keys and tables of a TOML text with their line numbers, as far as they are recognised line by line."""
    table: SettingPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        match = _HEADER.fullmatch(line) or _KEY.match(line)
        if match is None:
            continue
        try:
            path = tuple(_only_path(tomllib.loads(f"{match['path']} = 0")))
        except tomllib.TOMLDecodeError:
            continue
        if match.re is _HEADER:
            table = path
            yield table, number
        else:
            yield (*table, *path), number


def _only_path(document: Any) -> Iterator[str]:
    """The names on the way to the only value of a document."""
    while isinstance(document, dict):
        [(name, document)] = document.items()
        yield name


def _leaves(document: Document, above: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    """Every value of a document that is no table, or an empty one, with its path."""
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _list_or_text(name: str, value: str) -> Any:
    """A value of the environment. Lists are written as in the file: RTA_CONTROL__PRINCIPALS='["a", "b"]'."""
    if not value.startswith("["):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise errors.BadConfiguration(where=name, reason=f"it is not a TOML list: {error}") from error
    except RecursionError as error:
        raise errors.BadConfiguration(where=name, reason=f"it is not a TOML list: {TOO_DEEP}") from error


def _set(document: Document, path: SettingPath, value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value
