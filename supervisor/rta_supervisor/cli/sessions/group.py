"""The group of commands `rta-supervisor sessions`."""

import click

from rta_supervisor.cli.sessions import end, export, resurrect, show
from rta_supervisor.cli.sessions import list as sessions_list


class SessionsGroup(click.Group):
    """A group in which the command `list` may be left out: `sessions --all` is `sessions list --all`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("sessions", cls=SessionsGroup)
def command() -> None:
    """List sessions, search all that ever were, look at one, end one, bring one back.

    \b
    Examples:  rta-supervisor sessions list
               rta-supervisor sessions --all --text rig --since 7d
               rta-supervisor sessions show run-17
               rta-supervisor sessions close run-17
    """


for _subcommand in (sessions_list.list_, show.show, end.close, end.abandon, resurrect.resurrect, export.export):
    command.add_command(_subcommand)
