"""`rta-supervisor sessions close` and `abandon`: the end of sessions, asked for by a person."""

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec
from rich.progress import track
from rich.text import Text

from rta_supervisor import overview, settings
from rta_supervisor.commands import asking, options, requesting, shown
from rta_supervisor.link import Link
from rta_wire import control, control_pb2
from rta_wire.session import State

SHOW_PROGRESS_FROM: Final = 20


class Ended(msgspec.Struct, frozen=True):
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
@requesting.timeout
@options.yes
@options.as_json
@options.configured
def close(state: str, **chosen: Any) -> None:
    """End sessions with what stands in their streams now. Writers are refused from then on; closed is final.

    \b
    Examples:  rta-supervisor sessions close run-17
               rta-supervisor sessions close run-17 run-18 --state failed --yes
    """
    _end(State(state), **chosen)


@click.command()
@click.argument("identities", metavar="IDENTITY...", nargs=-1, required=True)
@requesting.timeout
@options.yes
@options.as_json
@options.configured
def abandon(**chosen: Any) -> None:
    """End sessions whose writers are gone, without waiting for the watchdog. Closed is final.

    \b
    Example:  rta-supervisor sessions abandon run-17
    """
    _end(State.ABANDONED, **chosen)


def _end(
    state: State, *, loaded: settings.Settings, identities: Sequence[str], timeout_s: float, yes: bool, as_json: bool
) -> None:
    asking.run(loaded, lambda link: _check_all(link, loaded, identities))
    names = ", ".join(map(shown.safe, identities))
    options.confirm(f"End {names} as {state}? Closed is final.", yes=yes)
    ended = asking.run(loaded, lambda link: _end_all(link, loaded, identities, state, timeout_s=timeout_s))
    if as_json:
        shown.json({"sessions": ended})
        return
    console = shown.console()
    for one in ended:
        how = "was closed before" if one.was_closed else "ended"
        line = Text(f"{shown.safe(one.identity)} {how}: ") + shown.state(one.state)
        console.print(line + f", {one.samples:,} samples")


async def _check_all(link: Link, loaded: settings.Settings, identities: Sequence[str]) -> None:
    """Nothing is ended where one of them is not there, or nobody would do it."""
    view = overview.Overview(link, loaded)
    for identity in identities:
        await requesting.check_known(view, identity)
    await requesting.Asker(link, loaded).check_somebody_listens()


async def _end_all(
    link: Link, loaded: settings.Settings, identities: Sequence[str], state: State, *, timeout_s: float
) -> list[Ended]:
    view = overview.Overview(link, loaded)
    asker = requesting.Asker(link, loaded, timeout_s=timeout_s)
    ended: list[Ended] = []
    console = shown.console(stderr=True)
    is_long = len(identities) >= SHOW_PROGRESS_FROM and console.is_terminal
    for identity in track(identities, "ending sessions", console=console, transient=True, disable=not is_long):
        before = await requesting.check_known(view, identity)
        request = control_pb2.CloseSession(request_id=control.new_request_id(), identity=identity, state=state)
        reply = await asker.ask(request)
        ended.append(Ended(identity, reply.state, before.state.is_closed, reply.totals.samples))
    return ended
