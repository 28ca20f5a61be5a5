"""`rta-supervisor sessions`: what is open, and everything about one of them. How one ends is `ending`'s."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from rta_supervisor import overview, settings
from rta_supervisor import sessions as sessions_
from rta_supervisor.clock import now_ms
from rta_supervisor.commands import asking, ending, options, requesting, shown
from rta_supervisor.link import Link
from rta_wire import session
from rta_wire.session import State
from rta_wire.totals import Totals


class Shown(msgspec.Struct, frozen=True):
    """What `sessions show --json` prints."""

    session: overview.SessionLine
    document: msgspec.Raw
    """Session JSON as its readers have it."""
    units: dict[str, Totals]
    expires_s: int


@click.group("sessions")
def command() -> None:
    """List sessions, look at one, end one.

    \b
    Examples:  rta-supervisor sessions list
               rta-supervisor sessions show run-17
               rta-supervisor sessions close run-17
    """


@command.command("list")
@click.option("--state", type=click.Choice([state.value for state in State if state is not State.UNKNOWN]))
@click.option("--stream", metavar="NAME", help="Those of one stream.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="How many; 0: all.")
@options.as_json
@options.configured
def list_(loaded: settings.Settings, state: str | None, stream: str | None, limit: int, as_json: bool) -> None:
    """Live sessions, the one that was heard of last comes first.

    Closed ones leave the list as soon as they are safe in the catalogue; `show` finds them for a day.

    \b
    Examples:  rta-supervisor sessions list --state open
               rta-supervisor sessions list --stream rocket-engine --json | jq -r .sessions[].identity
    """
    found = asking.run(loaded, lambda link: overview.Overview(link, loaded).sessions())
    wanted = [one for one in found if state in (None, one.state) and stream in (None, one.stream)]
    part = wanted[: limit or None]
    if as_json:
        shown.json({"sessions": part, "total": len(wanted)})
        return
    console = shown.console()
    console.print(_table(part))
    if len(part) < len(wanted):
        console.print(f"{len(wanted) - len(part):,} more: --limit 0 shows all")


def _table(lines: Sequence[overview.SessionLine]) -> Any:
    numbers = ("id", "samples", "bytes", "open for", "heard")
    made = shown.table("session", "state", "stream", "id", "principal", "samples", "bytes", *numbers[3:], right=numbers)
    at_ms = now_ms()
    for one in lines:
        made.add_row(
            shown.safe(one.identity),
            shown.state(one.state) + Text(" lost data", style="red") if one.lost_data else shown.state(one.state),
            one.stream,
            str(one.stream_session_id),
            shown.safe(one.principal),
            shown.count(one.samples),
            shown.size(one.stored_bytes),
            shown.ago(one.opened_ms, at_ms),
            f"{shown.ago(one.heard_ms, at_ms)} ago" if one.heard_ms is not None else shown.NOTHING,
        )
    return made


@command.command()
@click.argument("identity")
@options.as_json
@options.configured
def show(loaded: settings.Settings, identity: str, as_json: bool) -> None:
    """Everything about one session: its JSON, its time range, who wrote how much.

    \b
    Examples:  rta-supervisor sessions show run-17
               rta-supervisor sessions show run-17 --json | jq .document.details
    """
    found = asking.run(loaded, lambda link: look(link, loaded, identity))
    if as_json:
        shown.json(found)
    else:
        shown.console().print(_page(found))


async def look(link: Link, loaded: settings.Settings, identity: str) -> Shown:
    view = overview.Overview(link, loaded)
    line = await requesting.check_known(view, identity)
    known = await sessions_.Sessions(link, loaded).read(identity)
    expires_s = await link.do("TTL", loaded.keys.session(identity))
    units = {} if known is None else known.units
    return Shown(
        session=line,
        document=msgspec.Raw(known.document if known is not None and known.document else b"null"),
        units={unit: Totals.from_words(words.split(" ")) for unit, words in sorted(units.items())},
        expires_s=expires_s,
    )


def _page(found: Shown) -> Group:
    one = found.session
    at_ms = now_ms()
    raw = bytes(found.document)
    document = session.parse(raw) if raw != b"null" else {}
    pairs: list[tuple[str, Text | str]] = [
        ("session", shown.safe(one.identity)),
        ("identifier", shown.safe(str(document.get("identifier", shown.NOTHING)))),
        ("state", shown.state(one.state) + Text(" (Redis lost data of it)" if one.lost_data else "", style="red")),
        ("stream", f"{one.stream}, id {one.stream_session_id}"),
        ("principal", shown.safe(one.principal)),
        ("opened", f"{shown.moment_ms(one.opened_ms)}, {shown.ago(one.opened_ms, at_ms)} ago"),
        ("heard of", f"{shown.ago(one.heard_ms, at_ms)} ago" if one.heard_ms is not None else "put away"),
        ("from", shown.moment_ns(one.start_ns)),
        ("to", shown.moment_ns(one.end_ns)),
        ("samples", f"{shown.count(one.samples)} in {shown.count(one.bursts)} bursts"),
        ("bytes", f"{shown.size(one.stored_bytes)}, {shown.size(one.raw_bytes)} before compression"),
        ("expires", f"in {shown.duration(found.expires_s)}, renewed while it is open"),
    ]
    units = shown.table("unit", "bursts", "samples", "to", right=("bursts", "samples"))
    for name, totals in found.units.items():
        units.add_row(
            shown.safe(name), shown.count(totals.bursts), shown.count(totals.samples), shown.moment_ns(totals.end_ns)
        )
    text = Text(shown.pretty(raw))
    parts: list[RenderableType] = [shown.facts(pairs), "", *((units, "") if found.units else ()), text]
    return Group(*parts)


command.add_command(ending.close)
command.add_command(ending.abandon)
