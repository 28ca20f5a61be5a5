"""`rta-supervisor sessions close` and `abandon`: an operator ends sessions, whoever opened them."""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec
from rich.progress import track
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
from rta_wire.session import State

PROGRESS_BAR_MIN_SESSIONS: Final = 20


class EndedSession(msgspec.Struct, frozen=True):
    """One session in what `sessions close --json` and `abandon --json` print."""

    identity: str
    state: str
    was_closed: bool
    samples: int


@click.command()
@options.named_sessions
@click.option(
    "--state",
    type=click.Choice([State.CLOSED.value, State.TRUNCATED.value, State.FAILED.value]),
    default=State.CLOSED.value,
    show_default=True,
    help="The final state that readers see.",
)
@options.timeout
@options.yes
@options.as_json
@options.with_settings
def close(state: str, **arguments: Any) -> None:
    """End sessions with the data that their streams have now. Writers are refused from then on; closed is final.

    \b
    Examples:  rta-supervisor sessions close run-17
               rta-supervisor sessions close run-17 run-18 --state failed --yes
    """
    _end(State(state), **arguments)


@click.command()
@options.named_sessions
@options.timeout
@options.yes
@options.as_json
@options.with_settings
def abandon(**arguments: Any) -> None:
    """End sessions whose writers are gone, without waiting for the watchdog. Closed is final.

    \b
    Examples:  rta-supervisor sessions abandon run-17
               rta-supervisor sessions abandon --external-id job-4711 --principal rig-4
    """
    _end(State.ABANDONED, **arguments)


def _end(
    state: State, *, config: settings.Settings, names: SessionNames, timeout_s: float, yes: bool, as_json: bool
) -> None:
    identities = one_shot.run(config, lambda link: _check_all(link, config, names))
    listed = ", ".join(map(output.escape, identities))
    options.confirm(f"End {listed} as {state}? Closed is final.", yes=yes)
    sessions = one_shot.run(config, lambda link: _end_all(link, config, identities, state, timeout_s=timeout_s))
    if as_json:
        output.print_json({"sessions": sessions})
        return
    console = output.console()
    for session in sessions:
        verb = "was closed before" if session.was_closed else "ended"
        sentence = Text(f"{output.escape(session.identity)} {verb}: ") + output.state(session.state)
        console.print(sentence + f", {session.samples:,} samples")


async def _check_all(link: Link, config: settings.Settings, names: SessionNames) -> list[str]:
    """The identities of all sessions. Raises before any is ended where one of them does not exist, or no supervisor
    would serve the request."""
    identities = await session_lookup.resolve(link, config, names)
    redis_queries = queries.RedisQueries(link, config)
    for identity in identities:
        await session_lookup.require_session(redis_queries, identity)
    await control_client.OperatorClient(link, config).check_is_served()
    return identities


async def _end_all(
    link: Link, config: settings.Settings, identities: Sequence[str], state: State, *, timeout_s: float
) -> list[EndedSession]:
    redis_queries = queries.RedisQueries(link, config)
    operator = control_client.OperatorClient(link, config, timeout_s=timeout_s)
    sessions: list[EndedSession] = []
    console = output.console(stderr=True)
    has_bar = len(identities) >= PROGRESS_BAR_MIN_SESSIONS and console.is_terminal
    for identity in track(identities, "ending sessions", console=console, transient=True, disable=not has_bar):
        before = await session_lookup.require_session(redis_queries, identity)
        request = control_pb2.CloseSession(request_id=messages.new_request_id(), identity=identity, state=state)
        reply = await operator.request(request)
        sessions.append(EndedSession(identity, reply.state, before.state.is_closed, reply.totals.samples))
    return sessions
