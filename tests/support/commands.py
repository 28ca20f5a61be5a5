"""Runs commands of `rta-supervisor` in this process and checks what they print and how they end."""

import contextlib
import io
from typing import Any, NamedTuple

import click
import msgspec

from rta_supervisor.cli import entry as cli_entry

NO_REDIS_URL = "unix:///nonexistent/socket"
"""A URL at which no server can be."""


class CommandResult(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What a command that succeeded printed with `--json`."""
        assert self.code == 0, self
        return msgspec.json.decode(self.out)


def run(url: str, *arguments: str) -> CommandResult:
    """Runs a command. An empty URL: without `--redis-url`, so that the environment names the server."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_entry.main([*arguments, *(("--redis-url", url) if url else ())])
    return CommandResult(code, out.getvalue(), err.getvalue())


def refused(result: CommandResult, code: int, sentence: str) -> None:
    """Checks that a command ended with that exit code and one line on standard error, which has the sentence in it."""
    assert result.code == code, result
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1
    assert "Traceback" not in result.err + result.out


def every_command(group: click.Group, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """All commands below a group, groups included, by what a user types after `rta-supervisor`."""
    commands: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            commands |= every_command(command, (*path, name))
        commands[" ".join((*path, name))] = command
    return commands


def convert(printed: Any, type_: Any) -> Any:
    """JSON of a command as the type that the code prints. Checks that no field is missing and none is unknown."""
    value = msgspec.convert(printed, type_)
    assert msgspec.to_builtins(value) == printed
    return value


def rows(out: str) -> list[tuple[int, int, float]]:
    """Channel, time and value of each sample in what `tail --json` printed."""
    records = [msgspec.json.decode(line) for line in out.splitlines()]
    return [(record["channel"], record["time_ns"], record["value"]) for record in records if record["kind"] == "sample"]
