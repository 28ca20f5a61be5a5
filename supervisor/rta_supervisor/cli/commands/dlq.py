"""`rta-supervisor dlq`: messages that could not be applied."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec
from rich import progress
from rich.console import Group
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.control.dead_letters import DeadLetter, DeadLetters, ResentLetter
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors

T = TypeVar("T")

_which = click.argument("letters", metavar="[ID]...", nargs=-1)
_all = click.option("--all", "all_of_them", is_flag=True, help="All that are there now.")


class Unsendable(msgspec.Struct, frozen=True):
    """A letter that stays, and why."""

    letter: str
    reason: str


@click.group("dlq")
def command() -> None:
    """Look at messages that could not be applied, send them again or remove them.

    \b
    Examples:  rta-supervisor dlq list
               rta-supervisor dlq show 1794806302684-0
               rta-supervisor dlq retry 1794806302684-0
    """


@command.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many, newest first.")
@options.as_json
@options.with_settings
def list_(loaded: settings.Settings, limit: int, as_json: bool) -> None:
    """The newest dead letters, each with its reason.

    \b
    Examples:  rta-supervisor dlq list --limit 10
               rta-supervisor dlq list --json | jq -r '.letters[] | "\\(.letter) \\(.reason)"'
    """

    async def look(link: Link) -> tuple[int, list[DeadLetter]]:
        letters = DeadLetters(link, loaded)
        return await letters.count(), await letters.newest(limit)

    total, found = one_shot.run(loaded, look)
    if as_json:
        output.print_json({"letters": found, "total": total})
        return
    made = output.table("letter", "age", "lane", "message", "session", "reason", right=("age",))
    for one in found:
        made.add_row(
            *(one.letter, output.ago(one.buried_ms, now_ms()), output.escape(one.lane), one.kind or "?"),
            *(output.escape(one.session) or output.EMPTY_CELL, output.escape(one.reason)),
        )
    console = output.console()
    console.print(made if found else "no dead letters")
    if len(found) < total:
        console.print(f"{total - len(found):,} older ones: --limit shows more")


@command.command()
@click.argument("letter")
@options.as_json
@options.with_settings
def show(loaded: settings.Settings, letter: str, as_json: bool) -> None:
    """One dead letter with what is in it.

    \b
    Example:  rta-supervisor dlq show 1794806302684-0
    """
    found = one_shot.run(loaded, lambda link: DeadLetters(link, loaded).get(letter))
    if as_json:
        output.print_json(found)
        return
    one = found.letter
    pairs: list[tuple[str, Text | str]] = [
        ("letter", one.letter),
        ("buried", f"{output.format_time_ms(one.buried_ms)}, {output.ago(one.buried_ms, now_ms())} ago"),
        ("lane", f"{output.escape(one.lane)}, entry {output.escape(one.entry)}"),
        ("reason", f"{output.escape(one.code)}: {output.escape(one.reason)}"),
        ("message", one.kind or f"{one.size_bytes:,} bytes that can't be understood"),
    ]
    body = found.hex if found.message is None else output.pretty_json(msgspec.json.encode(found.message))
    output.console().print(Group(output.key_value_table(pairs), "", Text(body)))


@command.command()
@_which
@_all
@options.yes
@options.as_json
@options.with_settings
def retry(**chosen: Any) -> None:
    """Put dead letters back on the lanes that they came from, each once, and remove them here.

    Reports are cumulative, so one that was overtaken changes nothing. A request gets a new id: who sent it was told
    that it failed. One that fails again comes back as a new letter.

    \b
    Examples:  rta-supervisor dlq retry 1794806302684-0
               rta-supervisor dlq retry --all --yes
    """
    _retry(**chosen)


def _retry(*, loaded: settings.Settings, letters: tuple[str, ...], all_of_them: bool, yes: bool, as_json: bool) -> None:
    _check_which(letters, all_of_them=all_of_them)
    if all_of_them:
        options.confirm("Send all dead letters again?", yes=yes)
    sent: list[ResentLetter] = []
    unsendable: list[Unsendable] = []

    async def send(box: DeadLetters, letter: str) -> None:
        try:
            sent.append(await box.resend(letter))
        except errors.LetterUnusable as error:
            if not all_of_them:
                raise
            unsendable.append(Unsendable(letter, str(error)))

    one_shot.run(loaded, lambda link: _each(DeadLetters(link, loaded), letters, "sending", send))
    if as_json:
        output.print_json({"sent": sent, "left": unsendable})
        return
    console = output.console()
    for one in sent:
        console.print(f"{one.letter} sent to {one.lane}" if one.entry else f"{one.letter} had been sent before")
    for left in unsendable:
        console.print(Text(left.reason, style="yellow"))
    if not sent and not unsendable:
        console.print("no dead letters")


@command.command()
@_which
@_all
@options.yes
@options.as_json
@options.with_settings
def drop(**chosen: Any) -> None:
    """Remove dead letters for good.

    \b
    Examples:  rta-supervisor dlq drop 1794806302684-0
               rta-supervisor dlq drop --all --yes
    """
    _drop(**chosen)


def _drop(*, loaded: settings.Settings, letters: tuple[str, ...], all_of_them: bool, yes: bool, as_json: bool) -> None:
    _check_which(letters, all_of_them=all_of_them)
    what = "all dead letters" if all_of_them else ", ".join(map(output.escape, letters))
    options.confirm(f"Remove {what} for good?", yes=yes)
    dropped: list[str] = []

    async def remove(box: DeadLetters, letter: str) -> None:
        if await box.drop([letter]):
            dropped.append(letter)

    async def remove_all(link: Link) -> None:
        box = DeadLetters(link, loaded)
        for letter in letters:
            await box.get(letter)  # nothing is removed where one of them is not there
        await _each(box, letters, "removing", remove)

    one_shot.run(loaded, remove_all)
    if as_json:
        output.print_json({"dropped": dropped})
    else:
        output.console().print(f"{len(dropped):,} removed")


def _check_which(letters: tuple[str, ...], *, all_of_them: bool) -> None:
    if bool(letters) == all_of_them:
        raise errors.Usage(reason="Name dead letters by their ids, or all of them with --all.")


async def _each(
    box: DeadLetters, named: tuple[str, ...], doing: str, work: Callable[[DeadLetters, str], Awaitable[None]]
) -> None:
    """Those that are named, or all of them, with a bar where somebody watches."""
    console = output.console(stderr=True)
    total = len(named) or await box.count()
    with progress.Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        async for letter in _ids(box, named):
            await work(box, letter)
            bar.advance(task)


async def _ids(box: DeadLetters, named: tuple[str, ...]) -> AsyncIterator[str]:
    for letter in named:
        yield letter
    if not named:
        async for one in box.oldest_first():
            yield one.letter
