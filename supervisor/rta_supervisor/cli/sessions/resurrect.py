"""`rta-supervisor sessions resurrect`: publishes a session that Redis no longer has, from the catalogue."""

import click
import msgspec
from rich.text import Text

from rta_supervisor.cli import options, output, session_lookup
from rta_supervisor.cli.options import SessionNames
from rta_supervisor.control import client as control_client
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire.control import messages
from rta_wire.pb import control_pb2


class ResurrectedSession(msgspec.Struct, frozen=True):
    """What `sessions resurrect --json` prints."""

    identity: str
    state: str
    stream: str
    stream_session_id: int
    was_there: bool
    samples: int


@click.command()
@options.named_session
@options.timeout
@options.as_json
@options.with_settings
def resurrect(config: settings.Settings, names: SessionNames, timeout_s: float, as_json: bool) -> None:
    """Publish a session that Redis forgot, as the catalogue of the supervisors has it.

    A closed one can be read for another day; one that was open goes on. One that is there stays as it is.

    \b
    Examples:  rta-supervisor sessions resurrect run-17
               rta-supervisor sessions resurrect --external-id job-4711
    """
    session = one_shot.run(config, lambda link: _request(link, config, names, timeout_s=timeout_s))
    if as_json:
        output.print_json(session)
        return
    outcome = "was there all the time" if session.was_there else f"is back in {session.stream}"
    output.console().print(Text(f"{output.escape(session.identity)} {outcome}: ") + output.state(session.state))


async def _request(
    link: Link, config: settings.Settings, names: SessionNames, *, timeout_s: float
) -> ResurrectedSession:
    identity = await session_lookup.resolve_one(link, config, names)
    was_there = await queries.RedisQueries(link, config).session(identity) is not None
    request = control_pb2.ResurrectSession(request_id=messages.new_request_id(), identity=identity)
    reply = await control_client.OperatorClient(link, config, timeout_s=timeout_s).request(request)
    return ResurrectedSession(
        identity, reply.state, reply.stream, reply.stream_session_id, was_there, reply.totals.samples
    )
