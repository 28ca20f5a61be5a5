"""Lists of channels as files: TOML and JSON with everything, CSV with channels alone.

Bytes or text in, text out: opening files is left to others. Whatever is wrong is an error with the name of the file,
the line and the channel.
"""

import enum
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from rta_wire import errors, limits
from rta_wire.channels import csv_file, json_text, line_numbers, model, plain, plain_parser
from rta_wire.channels.line_numbers import LineIndex

_TOML_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")


class FileForm(enum.StrEnum):
    """How a list of channels is written, by the suffix of the file."""

    TOML = "toml"
    JSON = "json"
    CSV = "csv"


def form_of(path: str) -> FileForm:
    """The form of a file by its suffix."""
    suffix = path.rpartition(".")[2].lower() if "." in path else ""
    try:
        return FileForm(suffix)
    except ValueError:
        raise errors.BadChannels(
            where=path, reason=f"a list of channels is a file that ends in {', '.join(f'.{form}' for form in FileForm)}"
        ) from None


class CheckedFile(msgspec.Struct, frozen=True):
    """What was found in a file."""

    channel_list: model.ChannelList | None
    """None where there are mistakes."""
    mistakes: list[errors.BadChannels]
    """In the order of lines."""
    right_channels: list[model.Channel]
    """The channels without a mistake."""


def decode(data: bytes, *, name: str) -> str:
    """The text of a file. The mark that some programs begin a UTF-8 file with is left out."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(name, line, "it is not valid UTF-8. Save it in UTF-8") from error


def parse(text: str, form: FileForm, *, name: str) -> model.ChannelList:
    """The list in a file. Raises its first mistake. `name`: how errors name the file."""
    checked = check(text, form, name=name)
    if checked.channel_list is not None:
        return checked.channel_list
    first, *others = checked.mistakes
    if others:
        more = f"{len(others)} more {'mistake' if len(others) == 1 else 'mistakes'}"
        reason = f"{first.facts['reason']}. It has {more}: `rta-supervisor channels check {name}` lists all"
        raise errors.BadChannels(**{**first.facts, "reason": reason})
    raise first


def check(text: str, form: FileForm, *, name: str) -> CheckedFile:
    """The list in a file, or every mistake in it. A text that is no TOML or JSON at all has one, where it begins."""
    if len(text) > limits.CONFIG_MAX_BYTES:
        reason = f"it has {len(text)} characters, more than {limits.CONFIG_MAX_BYTES}"
        return CheckedFile(None, [_error(name, None, reason)], [])
    try:
        if form is FileForm.CSV:
            return _check_csv(text, name)
        if form is FileForm.TOML:
            return _check_values(plain_parser.parse(_load_toml(text, name)), line_numbers.of_toml, text, name)
        return _check_json(text, name)
    except errors.BadChannels as error:
        return CheckedFile(None, [error], [])
    except RecursionError as error:
        return CheckedFile(None, [_error(name, None, str(error))], [])
    except ValueError:
        # The one that is left: Python makes no number of so many digits, or no text of such a number.
        line = line_numbers.of_long_number(text)
        return CheckedFile(None, [_error(name, line, "a number has thousands of digits")], [])


def _check_json(text: str, name: str) -> CheckedFile:
    try:
        values, has_repeated = json_text.parse(text)
    except json.JSONDecodeError as error:
        raise _error(name, error.lineno, error.msg) from None
    checked = _check_values(plain_parser.parse(values), line_numbers.of_json, text, name)
    if not has_repeated:
        return checked
    repeated = line_numbers.of_json(text).repeated
    return _checked(
        checked,
        [
            *checked.mistakes,
            *(_error(name, line, f"its key {path[-1]!r} stands there twice") for path, line in repeated.items()),
        ],
    )


def _check_values(
    parsed: plain_parser.ParsedList, index_lines: Callable[[str], LineIndex], text: str, name: str
) -> CheckedFile:
    if not parsed.mistakes:
        return CheckedFile(parsed.channel_list, [], parsed.right_channels)
    index = index_lines(text)
    return _checked(parsed, [_error(name, index.line(each.path), each.reason, each.where) for each in parsed.mistakes])


def _check_csv(text: str, name: str) -> CheckedFile:
    rows = csv_file.read(text)
    parsed = plain_parser.parse({"channels": rows.channels}, is_text=True)
    found = [_error(name, each.line, each.reason, each.where) for each in rows.mistakes]
    for mistake in parsed.mistakes:
        line = rows.lines[int(mistake.path[1])] if len(mistake.path) > 1 else 1
        found.append(_error(name, line, mistake.reason, mistake.where))
    return _checked(parsed, found)


def _checked(parsed: "plain_parser.ParsedList | CheckedFile", found: list[errors.BadChannels]) -> CheckedFile:
    if not found:
        return CheckedFile(parsed.channel_list, [], parsed.right_channels)
    return CheckedFile(None, sorted(found, key=lambda error: error.facts["line"] or 0), parsed.right_channels)


def dump(channel_list: model.ChannelList, form: FileForm) -> str:
    """A list as the text of a file, which `parse` reads back. A CSV has no place for events and the application."""
    values = plain.to_plain(channel_list)
    if form is FileForm.JSON:
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if form is FileForm.TOML:
        return "\n".join(_toml_lines(values)) + "\n"
    if channel_list.events:
        raise errors.BadChannels(
            where=f"application {channel_list.application!r}", reason="a CSV has no place for its events"
        )
    return csv_file.dump(values.get("channels", []))


def _load_toml(text: str, name: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        at_end = text.count("\n") + 1
        raise _error(name, int(line[1]) if line else at_end, _TOML_LINE.sub("", str(error)).strip()) from None


def _toml_lines(values: Mapping[str, Any]) -> Iterator[str]:
    for name in ("application", "description"):
        if name in values:
            yield f"{name} = {_toml_value(values[name])}"
    for name in ("channels", "events"):
        for item in values.get(name, ()):
            yield ""
            yield f"[[{name}]]"
            yield from (f"{key} = {_toml_value(value)}" for key, value in item.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else json.dumps(key, ensure_ascii=False)


def _error(name: str, line: int | None, reason: str, subject: str = "") -> errors.BadChannels:
    """The error for a mistake. `subject`: the channel or event that it is about."""
    place = name if line is None else f"{name}, line {line}"
    where = f"{place}, {subject}" if subject else place
    return errors.BadChannels(where=where, reason=reason, line=line, subject=subject)
