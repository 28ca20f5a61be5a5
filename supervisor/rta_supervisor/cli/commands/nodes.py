"""`rta-supervisor nodes`: who serves."""

import click

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import safe_url
from rta_wire import errors


@click.command("nodes")
@options.as_json
@options.with_settings
def command(loaded: settings.Settings, as_json: bool) -> None:
    """Supervisors that run against this Redis. Ends with 69 where there is none.

    \b
    Examples:  rta-supervisor nodes
               rta-supervisor nodes --json | jq -r .nodes[].host
    """
    lines = one_shot.run(loaded, lambda link: queries.RedisQueries(link, loaded).nodes())
    if as_json:
        output.print_json({"nodes": lines})
    elif lines:
        made = output.table("node", "host", "pid", "version", "seen", "in work", right=("pid", "seen", "in work"))
        for line in lines:
            made.add_row(
                *(output.escape(line.node), output.escape(line.host), str(line.pid), output.escape(line.version)),
                f"{output.ago(line.seen_ms, now_ms())} ago",
                output.count(line.unacknowledged),
            )
        output.console().print(made)
    if not lines:
        raise errors.NoSupervisor(url=safe_url(loaded.redis.url))
