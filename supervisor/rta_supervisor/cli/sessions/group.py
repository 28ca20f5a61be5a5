"""The group of commands `rta-supervisor sessions`."""

import click

from rta_supervisor.cli.list_group import ListGroup
from rta_supervisor.cli.sessions import end, export, resurrect, show
from rta_supervisor.cli.sessions import list as sessions_list


@click.group("sessions", cls=ListGroup)
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
