"""`rta-supervisor sessions close` and `abandon`: the end of sessions, asked for by a person."""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec
from rich.progress import track
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.control import client as control_client
from rta_supervisor.observe import queries
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State

SHOW_PROGRESS_FROM: Final = 20


class EndedSession(msgspec.Struct, frozen=True):
    """What `--json` prints for each."""

    identity: str
    state: str
    was_closed: bool
    samples: int


@click.command()
@click.argument("identities", metavar="IDENTITY...", nargs=-1, required=True)
@click.option(
    "--state",
    type=click.Choice([State.CLOSED.value, State.TRUNCATED.value, State.FAILED.value]),
    default=State.CLOSED.value,
    show_default=True,
    help="What readers are told.",
)
@control_client.timeout_option
@options.yes
@options.as_json
@options.with_settings
def close(state: str, **chosen: Any) -> None:
    """End sessions with what stands in their streams now. Writers are refused from then on; closed is final.

    \b
    Examples:  rta-supervisor sessions close run-17
               rta-supervisor sessions close run-17 run-18 --state failed --yes
    """
    _end(State(state), **chosen)


@click.command()
@click.argument("identities", metavar="IDENTITY...", nargs=-1, required=True)
@control_client.timeout_option
@options.yes
@options.as_json
@options.with_settings
def abandon(**chosen: Any) -> None:
    """End sessions whose writers are gone, without waiting for the watchdog. Closed is final.

    \b
    Example:  rta-supervisor sessions abandon run-17
    """
    _end(State.ABANDONED, **chosen)


def _end(
    state: State, *, loaded: settings.Settings, identities: Sequence[str], timeout_s: float, yes: bool, as_json: bool
) -> None:
    one_shot.run(loaded, lambda link: _check_all(link, loaded, identities))
    names = ", ".join(map(output.escape, identities))
    options.confirm(f"End {names} as {state}? Closed is final.", yes=yes)
    ended = one_shot.run(loaded, lambda link: _end_all(link, loaded, identities, state, timeout_s=timeout_s))
    if as_json:
        output.print_json({"sessions": ended})
        return
    console = output.console()
    for one in ended:
        how = "was closed before" if one.was_closed else "ended"
        line = Text(f"{output.escape(one.identity)} {how}: ") + output.state(one.state)
        console.print(line + f", {one.samples:,} samples")


async def _check_all(link: Link, loaded: settings.Settings, identities: Sequence[str]) -> None:
    """Nothing is ended where one of them is not there, or nobody would do it."""
    view = queries.RedisQueries(link, loaded)
    for identity in identities:
        await control_client.require_session(view, identity)
    await control_client.OperatorClient(link, loaded).check_is_served()


async def _end_all(
    link: Link, loaded: settings.Settings, identities: Sequence[str], state: State, *, timeout_s: float
) -> list[EndedSession]:
    view = queries.RedisQueries(link, loaded)
    asker = control_client.OperatorClient(link, loaded, timeout_s=timeout_s)
    ended: list[EndedSession] = []
    console = output.console(stderr=True)
    is_long = len(identities) >= SHOW_PROGRESS_FROM and console.is_terminal
    for identity in track(identities, "ending sessions", console=console, transient=True, disable=not is_long):
        before = await control_client.require_session(view, identity)
        request = control_pb2.CloseSession(request_id=messages.new_request_id(), identity=identity, state=state)
        reply = await asker.request(request)
        ended.append(EndedSession(identity, reply.state, before.state.is_closed, reply.totals.samples))
    return ended
