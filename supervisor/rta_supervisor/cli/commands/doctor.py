"""`rta-supervisor doctor`: what is wrong, and what to do about it, on one page."""

from typing import Final

import click
from rich.console import Group
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.observe import doctor as observe_doctor
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot

STYLES: Final = {observe_doctor.OK: "green", observe_doctor.WARN: "yellow", observe_doctor.BAD: "bold red"}


@click.command("doctor")
@click.option(
    "--scan-keys",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    help="Keys to scan at most for orphaned ones, a thousand at a time; 0: none.",
)
@options.as_json
@options.with_settings
def command(loaded: settings.Settings, scan_keys: int, as_json: bool) -> int:
    """Check Redis and the supervisors, and say what to do.

    Ends with 0 where nothing is bad, also with warnings; with 69 where something is not available and with 78 where
    something is not configured as it has to be.

    \b
    Examples:  rta-supervisor doctor
               rta-supervisor doctor --json | jq '.findings[] | select(.level != "ok")'
    """
    findings = one_shot.run(loaded, lambda link: observe_doctor.Doctor(link, loaded, scan_keys=scan_keys).run())
    if as_json:
        output.print_json({"findings": findings})
        return observe_doctor.worst(findings)
    rows: list[Text] = []
    width = max(len(one.check) for one in findings)
    for one in findings:
        line = Text(f"{one.level:<5}", style=STYLES[one.level])
        line.append(f"{one.check:<{width}}  ", style="bold").append(output.escape(one.found), style="default")
        rows.append(line)
        if one.remedy:
            rows.append(Text(f"{'':{width + 7}}-> {output.escape(one.remedy)}"))
    output.console().print(Group(*rows))
    return observe_doctor.worst(findings)
