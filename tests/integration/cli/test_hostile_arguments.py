"""Arguments that no command can use, on all commands: each ends in a sentence and a documented exit code."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rta_supervisor.cli import entry as cli_entry
from tests.support import commands

DOCUMENTED_CODES = {0, 64, 65, 66, 69, 73, 75, 77, 78}
"""Those of docs/operating.md that arguments can cause: 70 would be a fault of ours."""

NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "-1", "true", "9" * 30, "9" * 5000, "")
TEXTS = ("", " ", "\n\x1b[31m", "*", "{}", "ä" * 300, "x" * 5000, "-1", "nan", "%s", "1-1-1", "9" * 25)
TIMES = ("", "nan", f"{'9' * 30}d", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "٣d", "9" * 30)
MESSAGE_MAX_CHARS = 2000

COMMANDS = {
    name: command
    for name, command in commands.every_command(cli_entry.cli).items()
    if not isinstance(command, click.Group) and name not in ("run", "demo")
}
FLAGS = {"archive": ("--dry-run", "--path", "/nonexistent"), "sessions list": ("--all",)}
"""Without which options of a command are not looked at, or without which it changes something."""


def is_number(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)


def hostile_calls(name: str) -> Iterator[tuple[click.Parameter, list[str]]]:
    """The command with one hostile option or argument at a time. Options for files and servers are left out."""
    parameters = COMMANDS[name].params
    arguments = ["x" for parameter in parameters if isinstance(parameter, click.Argument) and parameter.required]
    flags = [*FLAGS.get(name, ()), *(("--yes",) if any("--yes" in parameter.opts for parameter in parameters) else ())]
    for parameter in parameters:
        values = NO_NUMBERS if is_number(parameter) else TIMES if parameter.metavar == "TIME" else TEXTS
        for value in values:
            if isinstance(parameter, click.Option):
                if not parameter.is_flag and parameter.metavar not in ("FILE", "FOLDER", "URL"):
                    yield parameter, [*name.split(), *flags, f"{parameter.opts[0]}={value}", *arguments]
            else:
                yield parameter, [*name.split(), *flags, "--", value]


@pytest.mark.parametrize("name", COMMANDS)
def test_hostile_values_end_in_a_sentence(name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no number of the option's range is refused as usage; nothing has a traceback or quotes a long text."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("RTA_REDIS__URL", url)
    for parameter, call in hostile_calls(name):
        result = commands.run("", *call)
        assert result.code in DOCUMENTED_CODES, (call, result)
        assert result.code == 64 or not is_number(parameter), (call, result)
        assert "Traceback" not in result.err
        assert len(result.err) < MESSAGE_MAX_CHARS


@pytest.mark.parametrize("name", commands.every_command(cli_entry.cli))
def test_bytes_that_are_no_utf8_are_refused(name: str) -> None:
    """Wherever they stand; Python has them as lone surrogates."""
    for call in (["x\udcff"], ["--redis-url", "redis://\udcff"], ["--config=\udcff"]):
        result = commands.run("", *name.split(), *call)
        commands.refused(result, 64, "is not valid UTF-8")
