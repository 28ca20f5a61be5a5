"""`rta-supervisor nodes`: who serves."""

import click

from rta_supervisor import overview, settings
from rta_supervisor.clock import now_ms
from rta_supervisor.commands import asking, options, shown
from rta_supervisor.link import safe_url
from rta_wire import errors


@click.command("nodes")
@options.as_json
@options.configured
def command(loaded: settings.Settings, as_json: bool) -> None:
    """Supervisors that run against this Redis. Ends with 69 where there is none.

    \b
    Examples:  rta-supervisor nodes
               rta-supervisor nodes --json | jq -r .nodes[].host
    """
    lines = asking.run(loaded, lambda link: overview.Overview(link, loaded).nodes())
    if as_json:
        shown.json({"nodes": lines})
    elif lines:
        made = shown.table("node", "host", "pid", "version", "seen", "in work", right=("pid", "seen", "in work"))
        for line in lines:
            made.add_row(
                *(shown.safe(line.node), shown.safe(line.host), str(line.pid), shown.safe(line.version)),
                f"{shown.ago(line.seen_ms, now_ms())} ago",
                shown.count(line.unacknowledged),
            )
        shown.console().print(made)
    if not lines:
        raise errors.NoSupervisor(url=safe_url(loaded.redis.url))
