"""The commands of an operator, a module each. A module holds `command` and is imported when somebody asks for it: the
daemon and a command that is used in a script don't wait for parts that they don't need.
"""

import importlib
from typing import Final

import click

MODULES: Final = {
    "check-config": "check_config",
    "status": "status",
    "sessions": "sessions",
    "streams": "streams",
    "compact": "compact",
    "tail": "tail",
    "top": "top",
    "stats": "stats",
    "dlq": "dlq",
    "nodes": "nodes",
    "archive": "archive",
    "doctor": "doctor",
    "completion": "completion",
}
"""Where each command is, in the order in which help lists them."""


class Commands(click.Group):
    """A group that knows more commands than it has imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *MODULES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (module := MODULES.get(cmd_name)) is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f"{__name__}.{module}").command
        return command
