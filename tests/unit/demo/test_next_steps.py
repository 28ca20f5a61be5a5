"""What the demo prints at its end: each command is one that the program takes."""

import shlex
from pathlib import Path

import click
import pytest

from rta_supervisor.cli import entry
from rta_supervisor.demo import cars, next_steps

ROOT = Path(__file__).parents[3]
NAMES = cars.RunNames("0a1b2c3d")


@pytest.mark.parametrize("is_kept", [False, True])
def test_the_commands_exist(is_kept: bool) -> None:
    """The program parses each of them, its options included, and the documents are there."""
    lines = next_steps.next_steps("redis://127.0.0.1:6379/0", NAMES, is_kept=is_kept)
    commands = [
        shlex.split(line, comments=True) for line in lines if line.startswith("  ") and "rta-supervisor" in line
    ]
    assert commands
    for _, name, *arguments in commands:
        command = entry.cli.get_command(click.Context(entry.cli), name)
        assert command is not None
        command.make_context(name, arguments)
    documents = [word.strip(":;,") for line in lines for word in line.split() if word.startswith("docs/")]
    assert documents
    assert all((ROOT / name).is_file() for name in documents)


def test_a_password_is_not_printed() -> None:
    """Neither in a command nor in the line for Spark."""
    lines = next_steps.next_steps("redis://user:s3cret@127.0.0.1:6379/0", NAMES, is_kept=True)
    assert "s3cret" not in "\n".join(lines)


def test_an_installed_program_has_no_folder_conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There the line names the option that a server can't do without."""
    monkeypatch.setattr(next_steps, "__file__", str(tmp_path / "a/b/c/d.py"))
    lines = next_steps.next_steps("unix:///tmp/socket", NAMES, is_kept=False)
    assert "  redis-server --maxmemory-policy noeviction" in lines
