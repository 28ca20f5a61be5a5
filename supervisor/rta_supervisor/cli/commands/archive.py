"""`rta-supervisor archive`: closed sessions to Parquet files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich import progress

from rta_supervisor.archive import plan as archive_plan
from rta_supervisor.archive import run as archive_run
from rta_supervisor.archive.plan import ArchiveCandidate, ArchiveFilter
from rta_supervisor.archive.run import ArchivedSession
from rta_supervisor.cli import options, output, query_options
from rta_supervisor.control import client as control_client
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors

LOCAL: Final = "local[*]"
MS_NS: Final = 10**6
SOME_FAILED: Final = errors.NotArchivable.exit_code


class PlannedSession(msgspec.Struct, frozen=True):
    """What `--dry-run --json` prints for each."""

    identity: str
    stream_session_id: int
    stream: str
    source: str
    state: str
    samples: int
    stored_bytes: int
    folder: str
    incomplete: bool


@click.command("archive")
@click.option(
    "--path", type=click.Path(path_type=Path), metavar="FOLDER", help="The archive, in place of archive.path."
)
@click.option("--session", "identities", multiple=True, metavar="IDENTITY", help="Only these; may be repeated.")
@click.option("--stream", "streams", multiple=True, metavar="NAME", help="Only those of these streams.")
@click.option("--source", "sources", multiple=True, metavar="NAME", help="Only those of these sources, all days.")
@query_options.time_option("--since", "Only those opened at or after")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="How many at most, oldest first; 0: all.")
@click.option("--master", default=LOCAL, show_default=True, help="Where Spark runs; the folder has to be there too.")
@click.option("--refuse-incomplete", is_flag=True, help="Leave out sessions of which something is gone already.")
@click.option("--dry-run", is_flag=True, help="Show what would be archived, and stop.")
@control_client.timeout_option
@options.as_json
@options.with_settings
def command(loaded: settings.Settings, path: Path | None, since_ns: int | None, **chosen: Any) -> None:
    """Write closed sessions to Parquet files, verify them, and note where they are.

    Only sessions that the archive does not have yet: it can be repeated, and goes on where it was interrupted. Needs
    Spark (pip install 'rta-supervisor[spark]') and Java 17 or newer, and a supervisor that runs.

    \b
    Exit codes: 0 done or nothing to do, 65 some sessions could not be archived (the others are),
    69 Redis, Spark or the supervisor is away, 73 the folder can't be written, 75 another run is at it.
    \b
    Examples:  rta-supervisor archive --dry-run
               rta-supervisor archive --path /srv/archive
               rta-supervisor archive --source rocket-engine --since 7d --limit 100
               rta-supervisor archive --session run-17 --json | jq .sessions[].folder
               rta-supervisor archive --master spark://spark.example.com:7077
    """
    since_ms = (since_ns or 0) // MS_NS
    choice = ArchiveFilter(chosen["identities"], chosen["streams"], chosen["sources"], since_ms, chosen["limit"])
    folder = _folder(loaded, path)
    todo = one_shot.run(loaded, lambda link: _find_candidates(link, loaded, choice, is_dry=chosen["dry_run"]))
    if chosen["dry_run"]:
        _show_plan(todo, folder, as_json=chosen["as_json"])
        return
    done: list[ArchivedSession] = []
    way = archive_run.ArchiveOptions(folder, chosen["master"], chosen["timeout_s"], chosen["refuse_incomplete"])
    with _bar(enabled=bool(todo)) as show:
        try:
            archive_run.ArchiveRun(loaded, way, done.append, show).run(todo)
        finally:
            _show(done, as_json=chosen["as_json"])
    if any(one.outcome == "failed" for one in done):
        raise click.exceptions.Exit(SOME_FAILED)


async def _find_candidates(
    link: Link, loaded: settings.Settings, choice: ArchiveFilter, *, is_dry: bool
) -> list[ArchiveCandidate]:
    """Nothing is begun that nobody would note in the end."""
    if not is_dry:
        await control_client.OperatorClient(link, loaded).check_is_served()
    return await archive_plan.find_candidates(link, loaded, choice)


def _folder(loaded: settings.Settings, path: Path | None) -> Path:
    if path is None and not loaded.archive.path:
        raise errors.BadConfiguration(where="archive.path", reason="it is empty. Set it, or name a folder with --path")
    return (path or Path(loaded.archive.path)).absolute()


@contextmanager
def _bar(*, enabled: bool) -> Iterator[archive_run.OnProgress]:
    """A bar on a terminal; nothing elsewhere."""
    console = output.console(stderr=True)
    if not enabled or not console.is_terminal:
        yield lambda _: None
        return
    columns = (progress.TextColumn("archiving"), progress.BarColumn(), progress.TaskProgressColumn())
    with progress.Progress(*columns, progress.TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("archiving", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _show_plan(todo: Sequence[ArchiveCandidate], folder: Path, *, as_json: bool) -> None:
    planned = [
        PlannedSession(
            one.identity,
            one.stream_session_id,
            one.stream,
            one.source,
            one.state.value,
            one.samples,
            one.stored_bytes,
            str(folder / one.folder),
            one.is_trimmed,
        )
        for one in todo
    ]
    if as_json:
        output.print_json({"sessions": planned})
        return
    table = output.table("session", "state", "stream", "id", "samples", "bytes", "to", right=("id", "samples", "bytes"))
    for one in planned:
        state = output.state(one.state)
        table.add_row(
            output.escape(one.identity),
            state + " (trimmed)" if one.incomplete else state,
            one.stream,
            str(one.stream_session_id),
            output.count(one.samples),
            output.size(one.stored_bytes),
            one.folder,
        )
    console = output.console()
    console.print(table)
    size = output.size(sum(one.stored_bytes for one in planned))
    console.print(f"{len(planned):,} sessions, {sum(one.samples for one in planned):,} samples, {size} in Redis")


def _show(done: Sequence[ArchivedSession], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"sessions": done})
        return
    console, complaints = output.console(), output.console(stderr=True)
    for one in done:
        name = output.escape(one.identity)
        if one.outcome == "failed":
            complaints.print(f"failed: {output.escape(one.problem)}")
            continue
        console.print(
            f"{name}: {one.samples:,} samples, {one.events:,} events, {output.size(one.size_bytes)}, {one.folder}"
        )
        if one.problem:
            complaints.print(
                f"warning: {name}: {'it lacks ' if one.outcome == 'incomplete' else ''}{output.escape(one.problem)}"
            )
    failed = sum(one.outcome == "failed" for one in done)
    console.print(f"{len(done) - failed:,} sessions archived" + (f", {failed:,} failed" if failed else ""))
