"""`rta-supervisor nodes`: the supervisors that run."""

import click

from rta_supervisor.cli import options, output
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_wire import errors, redis_url


@click.command("nodes")
@options.as_json
@options.with_settings
def command(config: settings.Settings, as_json: bool) -> None:
    """List the supervisors that run against this Redis. Ends with 69 where there is none.

    \b
    Examples:  rta-supervisor nodes
               rta-supervisor nodes --json | jq -r .nodes[].host
    """
    nodes = one_shot.run(config, lambda link: queries.RedisQueries(link, config).nodes())
    if as_json:
        output.print_json({"nodes": nodes})
    elif nodes:
        table = output.table("node", "host", "pid", "version", "seen", "in work", right=("pid", "seen", "in work"))
        for node in nodes:
            table.add_row(
                output.escape(node.node),
                output.escape(node.host),
                str(node.pid),
                output.escape(node.version),
                f"{output.ago(node.seen_ms, now_ms())} ago",
                output.count(node.unacknowledged),
            )
        output.console().print(table)
    if not nodes:
        raise errors.NoSupervisor(url=redis_url.redact(config.redis.url), prefix=config.keys.prefix)
