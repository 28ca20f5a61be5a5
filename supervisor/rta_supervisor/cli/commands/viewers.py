"""`rta-supervisor viewers`: who watches what, and how far behind; asks the gateways that run."""

from typing import Any

import click

from rta_supervisor.cli import options, output
from rta_supervisor.observe import gateway_client
from rta_supervisor.settings import settings
from rta_wire import errors


@click.command("viewers")
@options.as_json
@options.with_settings
def command(config: settings.Settings, as_json: bool) -> None:
    """List the viewers of all gateways at gateway.addresses. Ends with 69 where none of them answers.

    \b
    A gateway that wants a token gets that of RTA_GATEWAY_TOKEN, and shows what that token may see.
    \b
    Examples:  rta-supervisor viewers
               rta-supervisor viewers --json | jq '.viewers[] | select(.is_live | not)'
    """
    viewers: list[dict[str, Any]] = []
    problems = []
    for address in config.gateway.addresses:
        try:
            status, answer = gateway_client.ask(address, "/viewers")
        except gateway_client.ASKING_ERRORS as error:
            problems.append((address, str(error)))
            continue
        if status == 200 and not (isinstance(answer, dict) and isinstance(answer.get("viewers"), list)):
            problems.append((address, "what answers there is no gateway"))
        elif status == 200:
            viewers += [{"gateway": address, **line} for line in answer["viewers"]]
        else:
            problems.append((address, f"{status}: {answer}"))
    if len(problems) == len(config.gateway.addresses):
        address, reason = problems[0] if problems else ("gateway.addresses", "it names none")
        raise errors.GatewayUnreachable(address=address, reason=reason)
    for address, reason in problems:
        click.echo(f"{address}: {reason}", err=True)
    if as_json:
        output.print_json({"viewers": viewers})
        return
    table = output.table(
        *("session", "token", "address", "channels", "state", "behind", "queued", "sent", "missed"),
        right=("channels", "behind", "queued", "sent", "missed"),
    )
    for line in sorted(viewers, key=lambda line: (-line["behind_s"], line["identity"])):
        table.add_row(
            output.escape(line["identity"]),
            output.escape(line["token"]),
            output.escape(line["address"]),
            line["channels"],
            "live" if line["is_live"] else "catching up",
            f"{line['behind_s']:.1f} s",
            output.count(line["queued_bytes"]),
            output.count(line["sent_bytes"]),
            output.count(line["gap_entries"]),
        )
    output.console().print(table)
