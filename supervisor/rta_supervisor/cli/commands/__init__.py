"""The commands of an operator, a module each. A module holds `command` and is imported when somebody asks for it: the
daemon and a command that is used in a script don't wait for parts that they don't need.
"""

import importlib
from typing import Final

import click

MODULES: Final = {
    "check-config": "commands.check_config",
    "status": "commands.status",
    "sessions": "sessions.list",
    "streams": "commands.streams",
    "compact": "commands.compact",
    "tail": "commands.tail",
    "top": "commands.top",
    "stats": "commands.stats",
    "dlq": "commands.dlq",
    "nodes": "commands.nodes",
    "archive": "commands.archive",
    "doctor": "commands.doctor",
    "completion": "commands.completion",
}
"""Where each command is, in the order in which help lists them."""


class LazyGroup(click.Group):
    """A group that knows more commands than it has imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *MODULES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (module := MODULES.get(cmd_name)) is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f"rta_supervisor.cli.{module}").command
        return command
