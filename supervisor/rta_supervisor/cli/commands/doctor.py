"""`rta-supervisor doctor`: prints what is wrong with a deployment and what to do about it. `observe.doctor` checks."""

from typing import Final

import click
from rich.console import Group
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.observe.doctor import checklist, repair
from rta_supervisor.observe.doctor import findings as observe_findings
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot

STYLES: Final = {observe_findings.OK: "green", observe_findings.WARN: "yellow", observe_findings.BAD: "bold red"}


@click.command("doctor")
@click.option(
    "--scan-keys",
    type=click.IntRange(0, options.COUNT_MAX),
    default=100_000,
    show_default=True,
    help="Keys to scan at most for orphaned ones, a thousand at a time; 0: none.",
)
@click.option("--repair", "repair_key", metavar="KEY", help="Mend one key that was spoilt, where that is safe.")
@options.yes
@options.as_json
@options.with_settings
def command(config: settings.Settings, scan_keys: int, repair_key: str | None, yes: bool, as_json: bool) -> int:
    """Check Redis and the supervisors, and say what to do.

    Ends with 0 where nothing is bad, also with warnings; with 69 where something is not available and with 78 where
    something is not configured as it has to be.

    \b
    Examples:  rta-supervisor doctor
               rta-supervisor doctor --json | jq '.findings[] | select(.level != "ok")'
               rta-supervisor doctor --repair 'rtas:dd:{stream:rig}:7'
    """
    if repair_key is not None:
        _repair(config, repair_key, yes=yes, as_json=as_json)
        return 0
    findings = one_shot.run(
        config, lambda link: checklist.run_checks(link, config, scan_keys=scan_keys), is_prefix_checked=False
    )
    if as_json:
        output.print_json({"findings": findings})
        return observe_findings.first_exit_code(findings)
    rows: list[Text] = []
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        row = Text(f"{finding.level:<5}", style=STYLES[finding.level])
        row.append(f"{finding.check:<{width}}  ", style="bold").append(output.escape(finding.found), style="default")
        rows.append(row)
        if finding.remedy:
            rows.append(Text(f"{'':{width + 7}}-> {output.escape(finding.remedy)}"))
    output.console().print(Group(*rows))
    return observe_findings.first_exit_code(findings)


def _repair(config: settings.Settings, key: str, *, yes: bool, as_json: bool) -> None:
    """Say what is wrong with a key and what would be done, ask, and do it."""
    plan = one_shot.run(config, lambda link: repair.Repair(link, config).plan(key))
    options.confirm(f"{key} {plan.found}. To mend it: {plan.action}. Go on?", yes=yes)
    one_shot.run(config, lambda link: repair.Repair(link, config).carry_out(plan))
    if as_json:
        output.print_json({"key": plan.key, "found": plan.found, "action": plan.action})
    else:
        output.console().print(output.escape(f"{key}: done ({plan.action})."))
