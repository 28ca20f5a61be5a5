"""The command line as an operator meets it on a terminal: colours, questions, a live table, completion."""

import os
import pkgutil
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
import redis

import rta_writers
from rta_supervisor.cli import commands
from rta_supervisor.cli import entry as cli_entry
from tests.acceptance.terminal import on_terminal
from tests.support.commands import every_command
from tests.support.control import document, write

COLOUR = "\x1b[32m"  # green: open


def test_colours_on_a_terminal_only(url: str, sessions: rta_writers.SessionClient) -> None:
    """Colours on a terminal, none in a pipe and none on a terminal with NO_COLOR."""
    sessions.open("run-1", stream="rig")
    arguments = ["sessions", "list", "--redis-url", url]
    with on_terminal(*arguments) as terminal:
        assert terminal.wait() == 0
        assert f"{COLOUR}open" in terminal.output
    with on_terminal(*arguments, environment={"NO_COLOR": "1"}) as terminal:
        assert terminal.wait() == 0
        assert "open" in terminal.output
        assert COLOUR not in terminal.output
    script = f"{sys.executable} -m rta_supervisor {' '.join(arguments)} | head -n 1"
    piped = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert piped.stdout.startswith("session")
    assert "\x1b" not in piped.stdout
    assert "Traceback" not in piped.stderr


def test_closing_asks_for_confirmation(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """Without consent nothing is closed and the exit code is 130; with it the session is closed."""
    sessions.open("run-1", stream="rig")
    arguments = ["sessions", "close", "run-1", "--redis-url", url]
    with on_terminal(*arguments) as terminal:
        terminal.wait_for("End run-1 as closed? Closed is final. [y/N]")
        terminal.type("n\n")
        assert terminal.wait() == 130
    assert document(client, "run-1")["state"] == "open"
    with on_terminal(*arguments) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.wait() == 0
        assert "run-1 ended" in terminal.output
    assert document(client, "run-1")["state"] == "closed"


def test_top_updates_its_table(client: redis.Redis, url: str, sessions: rta_writers.SessionClient) -> None:
    """New data and new sessions appear in the table; Ctrl-C ends it and restores the screen."""
    first = sessions.open("run-1", stream="rig")
    with on_terminal("top", "--every-s", "0.2", "--redis-url", url) as terminal:
        terminal.wait_for("run-1")
        write(client, first, 321)
        terminal.wait_for("321")
        sessions.open("run-2", stream="rig")
        terminal.wait_for("run-2")
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.wait() == 130
        assert "\x1b[?1049h" in terminal.output
        assert terminal.output.rstrip().endswith(("\x1b[?1049l\x1b[?25h", "\x1b[?25h\x1b[?1049l", "\x1b[?25h"))
        assert "Traceback" not in terminal.output


def test_bash_completes(tmp_path: Path) -> None:
    """The script that `completion bash` prints, in a real bash, completes commands and subcommands."""
    script = tmp_path / "complete.bash"
    program = tmp_path / "rta-supervisor"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rta_supervisor "$@"\n')
    program.chmod(0o755)
    text = """
        rta-supervisor completion bash > script || exit 1
        source ./script
        COMP_WORDS=(rta-supervisor sess) COMP_CWORD=1; _rta_supervisor_completion rta-supervisor; echo "${COMPREPLY[@]}"
        COMPREPLY=() COMP_WORDS=(rta-supervisor sessions ab) COMP_CWORD=2
        _rta_supervisor_completion rta-supervisor; echo "${COMPREPLY[@]}"
    """
    script.write_text(text)
    completed = subprocess.run(
        ["/bin/bash", str(script)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.stdout.split() == ["sessions", "abandon"], completed.stderr


@pytest.mark.parametrize("name", every_command(cli_entry.cli))
def test_every_command_shows_examples(name: str) -> None:
    """The help of each command has an example of that command, and its examples use only options that there are."""
    command = every_command(cli_entry.cli)[name]
    examples = [line for line in (command.help or "").splitlines() if f"rta-supervisor {name}" in line]
    assert examples, command.help
    options = {option for parameter in command.params for option in parameter.opts}
    for example in examples:
        arguments = example.partition("|")[0].partition(">")[0]
        used = set(re.findall(r"(?<!\S)--[a-z-]+", arguments))
        if not isinstance(command, click.Group):
            assert used <= options, example


def test_every_module_of_commands_can_be_called() -> None:
    """Each module in the package `commands` is the command that `--help` lists, besides those of other packages."""
    modules = {name for name, module in cli_entry.COMMAND_MODULES.items() if module.startswith("commands.")}
    assert {name.replace("-", "_") for name in modules} == {
        info.name for info in pkgutil.iter_modules(commands.__path__)
    }
    assert {"run", "demo", "sessions", *modules} == set(cli_entry.cli.list_commands(click.Context(cli_entry.cli)))
