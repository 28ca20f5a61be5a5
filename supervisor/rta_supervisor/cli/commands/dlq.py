"""`rta-supervisor dlq`: control messages that could not be applied. Lists, shows, resends and removes them."""

from collections.abc import AsyncIterator, Awaitable, Callable

import click
import msgspec
from rich import progress
from rich.console import Group
from rich.text import Text

from rta_supervisor.cli import options, output
from rta_supervisor.control.dead_letters import DeadLetter, DeadLetterContents, DeadLetters, ResentLetter
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors

_letter_ids = click.argument("letter_ids", metavar="[ID]...", nargs=-1)
_all = click.option("--all", "is_all", is_flag=True, help="All dead letters that there are now.")


class UnsendableLetter(msgspec.Struct, frozen=True):
    """A dead letter that can't be sent again, and why, as `dlq retry --all --json` prints it."""

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
@click.option(
    "--limit",
    type=click.IntRange(1, options.COUNT_MAX),
    default=50,
    show_default=True,
    help="How many to list, newest first.",
)
@options.as_json
@options.with_settings
def list_(config: settings.Settings, limit: int, as_json: bool) -> None:
    """List the newest dead letters, each with its reason.

    \b
    Examples:  rta-supervisor dlq list --limit 10
               rta-supervisor dlq list --json | jq -r '.letters[] | "\\(.letter) \\(.reason)"'
    """

    async def read(link: Link) -> tuple[int, list[DeadLetter]]:
        dead_letters = DeadLetters(link, config)
        return await dead_letters.count(), await dead_letters.newest(limit)

    total, letters = one_shot.run(config, read)
    if as_json:
        output.print_json({"letters": letters, "total": total})
        return
    table = output.table("letter", "age", "lane", "message", "session", "reason", right=("age",))
    for letter in letters:
        table.add_row(
            letter.letter,
            output.ago(letter.buried_ms, now_ms()),
            output.escape(letter.lane),
            letter.kind or "?",
            output.escape(letter.session) or output.EMPTY_CELL,
            output.escape(letter.reason),
        )
    console = output.console()
    console.print(table if letters else "no dead letters")
    if len(letters) < total:
        console.print(f"{total - len(letters):,} older ones: --limit shows more")


@command.command()
@click.argument("letter_id", metavar="ID")
@options.as_json
@options.with_settings
def show(config: settings.Settings, letter_id: str, as_json: bool) -> None:
    """Show one dead letter with the message in it.

    \b
    Example:  rta-supervisor dlq show 1794806302684-0
    """
    contents = one_shot.run(config, lambda link: DeadLetters(link, config).get(letter_id))
    if as_json:
        output.print_json(contents)
        return
    letter = contents.letter
    facts: list[tuple[str, Text | str]] = [
        ("letter", letter.letter),
        ("buried", f"{output.format_time_ms(letter.buried_ms)}, {output.ago(letter.buried_ms, now_ms())} ago"),
        ("lane", f"{output.escape(letter.lane)}, entry {output.escape(letter.entry)}"),
        ("reason", f"{output.escape(letter.code)}: {output.escape(letter.reason)}"),
        ("message", _format_message(contents)),
    ]
    body = contents.hex if contents.message is None else output.pretty_json(msgspec.json.encode(contents.message))
    output.console().print(Group(output.key_value_table(facts), "", Text(body)))


def _format_message(contents: DeadLetterContents) -> str:
    letter = contents.letter
    if letter.is_cut:
        return f"the first {len(contents.hex) // 2:,} of {letter.size_bytes:,} bytes: the rest was not kept"
    return letter.kind or f"{letter.size_bytes:,} bytes that can't be understood"


@command.command()
@_letter_ids
@_all
@options.yes
@options.as_json
@options.with_settings
def retry(*, config: settings.Settings, letter_ids: tuple[str, ...], is_all: bool, yes: bool, as_json: bool) -> None:
    """Put dead letters back on the control streams that they came from, each once, and remove them here.

    Reports are cumulative, so one that was overtaken changes nothing. A request gets a new id: its sender has been
    answered that it failed. One that fails again comes back as a new letter.

    \b
    Examples:  rta-supervisor dlq retry 1794806302684-0
               rta-supervisor dlq retry --all --yes
    """
    _check_chosen(letter_ids, is_all=is_all)
    if is_all:
        options.confirm("Send all dead letters again?", yes=yes)
    sent: list[ResentLetter] = []
    unsendable: list[UnsendableLetter] = []

    async def resend(dead_letters: DeadLetters, letter_id: str) -> None:
        try:
            sent.append(await dead_letters.resend(letter_id))
        except errors.LetterUnusable as error:
            if not is_all:
                raise
            unsendable.append(UnsendableLetter(letter_id, str(error)))

    one_shot.run(config, lambda link: _for_each(DeadLetters(link, config), letter_ids, "sending", resend))
    if as_json:
        output.print_json({"sent": sent, "left": unsendable})
    else:
        _print_retried(sent, unsendable)


def _print_retried(sent: list[ResentLetter], unsendable: list[UnsendableLetter]) -> None:
    console = output.console()
    for resent in sent:
        console.print(
            f"{resent.letter} sent to {resent.lane}" if resent.entry else f"{resent.letter} had been sent before"
        )
    for letter in unsendable:
        console.print(Text(letter.reason, style="yellow"))
    if not sent and not unsendable:
        console.print("no dead letters")


@command.command()
@_letter_ids
@_all
@options.yes
@options.as_json
@options.with_settings
def drop(*, config: settings.Settings, letter_ids: tuple[str, ...], is_all: bool, yes: bool, as_json: bool) -> None:
    """Remove dead letters for good.

    \b
    Examples:  rta-supervisor dlq drop 1794806302684-0
               rta-supervisor dlq drop --all --yes
    """
    _check_chosen(letter_ids, is_all=is_all)
    names = "all dead letters" if is_all else ", ".join(map(output.escape, letter_ids))
    options.confirm(f"Remove {names} for good?", yes=yes)
    dropped: list[str] = []

    async def remove(dead_letters: DeadLetters, letter_id: str) -> None:
        if await dead_letters.drop([letter_id]):
            dropped.append(letter_id)

    async def remove_all(link: Link) -> None:
        dead_letters = DeadLetters(link, config)
        for letter_id in letter_ids:
            await dead_letters.get(letter_id)  # nothing is removed where one of them does not exist
        await _for_each(dead_letters, letter_ids, "removing", remove)

    one_shot.run(config, remove_all)
    if as_json:
        output.print_json({"dropped": dropped})
    else:
        output.console().print(f"{len(dropped):,} removed")


def _check_chosen(letter_ids: tuple[str, ...], *, is_all: bool) -> None:
    if bool(letter_ids) == is_all:
        raise errors.Usage(reason="Name dead letters by their ids, or all of them with --all.")


async def _for_each(
    dead_letters: DeadLetters,
    letter_ids: tuple[str, ...],
    verb: str,
    work: Callable[[DeadLetters, str], Awaitable[None]],
) -> None:
    """Calls `work` for each of the letters, or for all that there are if none is named; on a terminal with a bar."""
    console = output.console(stderr=True)
    total = len(letter_ids) or await dead_letters.count()
    with progress.Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(verb, total=total)
        async for letter_id in _chosen_ids(dead_letters, letter_ids):
            await work(dead_letters, letter_id)
            bar.advance(task)


async def _chosen_ids(dead_letters: DeadLetters, letter_ids: tuple[str, ...]) -> AsyncIterator[str]:
    for letter_id in letter_ids:
        yield letter_id
    if not letter_ids:
        async for letter in dead_letters.oldest_first():
            yield letter.letter
