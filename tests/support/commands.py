"""Commands as an operator gives them: in this process where only the answer counts, on a terminal where looks do."""

import contextlib
import io
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click
import msgspec

from rta_supervisor.cli import entry as cli_entry
from tests.support.waiting import wait_until


class Ran(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self
        return msgspec.json.decode(self.out)


def run(url: str, *words: str) -> Ran:
    """A command from its words to its exit code. Without a URL it is left to the environment."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_entry.main([*words, *(("--redis-url", url) if url else ())])
    return Ran(code, out.getvalue(), err.getvalue())


def refused(ran: Ran, code: int, words: str) -> None:
    """One sentence on standard error, the exit code, and nothing else."""
    assert ran.code == code, ran
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1
    assert "Traceback" not in ran.err + ran.out


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


class Terminal:
    """A command on a terminal of 100 by 30 characters."""

    def __init__(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self._far, near = pty.openpty()
        termios.tcsetwinsize(near, (30, 100))
        environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rta_supervisor", *words],
            stdin=near,
            stdout=near,
            stderr=near,
            env={**environ, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
        )
        os.close(near)
        os.set_blocking(self._far, False)
        self._seen = b""

    @property
    def seen(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: the other end is gone
            while part := os.read(self._far, 65_536):
                self._seen += part
        return self._seen.decode(errors="replace")

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.seen, timeout_s=60, what=f"{words!r} on the terminal; it shows {self.seen!r}")

    def type(self, text: str) -> None:
        os.write(self._far, text.encode())

    def end(self) -> int:
        """The exit code, once everything is read."""
        wait_until(lambda: (self.seen, self.process.poll())[1] is not None, timeout_s=60, what="the end of the command")
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._far)


@contextlib.contextmanager
def on_terminal(*words: str, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    terminal = Terminal(*words, environment=environment)
    try:
        yield terminal
    finally:
        terminal.close()


def convert(found: Any, kind: Any) -> Any:
    """What a script reads, checked against what the code says that it prints: no field more, none less."""
    read = msgspec.convert(found, kind)
    assert msgspec.to_builtins(read) == found
    return read


def rows(out: str) -> list[tuple[int, int, float]]:
    """The samples in what `tail --json` printed."""
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    return [(one["channel"], one["time_ns"], one["value"]) for one in lines if one["kind"] == "sample"]
