"""`rta-supervisor sessions resurrect`: a session that Redis forgot, published again from the catalogue."""

import click
import msgspec
from rich.text import Text

from rta_supervisor import overview, settings
from rta_supervisor.commands import asking, options, requesting, shown
from rta_supervisor.link import Link
from rta_wire import control, control_pb2


class Resurrected(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    identity: str
    state: str
    stream: str
    stream_session_id: int
    was_there: bool
    samples: int


@click.command()
@click.argument("identity")
@requesting.timeout
@options.as_json
@options.configured
def resurrect(loaded: settings.Settings, identity: str, timeout_s: float, as_json: bool) -> None:
    """Publish a session that Redis forgot, as the catalogue of the supervisors has it.

    A closed one can be read for another day; one that was open goes on. One that is there stays as it is.

    \b
    Example:  rta-supervisor sessions resurrect run-17
    """
    found = asking.run(loaded, lambda link: _ask(link, loaded, identity, timeout_s=timeout_s))
    if as_json:
        shown.json(found)
        return
    how = "was there all the time" if found.was_there else f"is back in {found.stream}"
    shown.console().print(Text(f"{shown.safe(identity)} {how}: ") + shown.state(found.state))


async def _ask(link: Link, loaded: settings.Settings, identity: str, *, timeout_s: float) -> Resurrected:
    was_there = await overview.Overview(link, loaded).session(identity) is not None
    request = control_pb2.ResurrectSession(request_id=control.new_request_id(), identity=identity)
    reply = await requesting.Asker(link, loaded, timeout_s=timeout_s).ask(request)
    return Resurrected(identity, reply.state, reply.stream, reply.stream_session_id, was_there, reply.totals.samples)
