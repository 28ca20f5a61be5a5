"""`rta-supervisor archive`: sessions to Parquet files, closed ones whole and open ones part by part."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich import progress

from rta_supervisor.archive import candidates as archive_candidates
from rta_supervisor.archive import preview
from rta_supervisor.archive import run as archive_run
from rta_supervisor.archive.plan import ArchiveCandidate, ArchiveFilter
from rta_supervisor.archive.run import ArchivedSession
from rta_supervisor.cli import options, output, query_options, session_lookup
from rta_supervisor.control import client as control_client
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors

LOCAL_SPARK: Final = "local[*]"
MS_NS: Final = 10**6
SOME_FAILED: Final = errors.NotArchivable.exit_code


class PlannedSession(msgspec.Struct, frozen=True):
    """One session in what `archive --dry-run --json` prints."""

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
    "--path",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder of the archive, in place of the setting archive.path.",
)
@click.option(
    "--session", "identities", multiple=True, metavar="IDENTITY", help="Only these sessions; may be repeated."
)
@options.external_ids
@click.option(
    "--stream", "streams", multiple=True, metavar="NAME", help="Only sessions of these streams; may be repeated."
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    help="Only sessions of these sources, all days; may be repeated.",
)
@query_options.time_option("--since", "Only sessions opened at or after")
@click.option(
    "--limit",
    type=click.IntRange(0, options.COUNT_MAX),
    default=0,
    help="How many sessions at most, closed ones first, then by age; 0: all.",
)
@click.option(
    "--master",
    default=LOCAL_SPARK,
    show_default=True,
    help="The master of Spark; its hosts have to see the folder too.",
)
@click.option("--closed-only", is_flag=True, help="Leave sessions that are open for later.")
@click.option("--refuse-incomplete", is_flag=True, help="Leave out sessions of which data is gone already.")
@click.option(
    "--check-files", is_flag=True, help="Compare all files with their checksums first; damaged parts are made anew."
)
@click.option("--dry-run", is_flag=True, help="Show what would be archived, and stop.")
@options.timeout
@options.as_json
@options.with_settings
def command(config: settings.Settings, path: Path | None, since_ns: int | None, **arguments: Any) -> None:
    """Write sessions to Parquet files, verify them, and record where they are.

    Only what the archive does not have yet, so the command can be repeated after an interruption: closed sessions,
    and of open ones a part with what is new since the last one. Needs
    a running supervisor, Spark and Java 17 or newer: make install PACKAGES=spark, or
    pip install 'rta-supervisor[archive]', bring both.

    \b
    Exit codes: 0 done or nothing to do, 65 some sessions could not be archived (the others are),
    69 Redis, Spark or the supervisor is away, 73 the folder can't be written, 75 another run is active.
    \b
    Examples:  rta-supervisor archive --dry-run
               rta-supervisor archive --path /srv/archive
               rta-supervisor archive --source rocket-engine --since 7d --limit 100
               rta-supervisor archive --session run-17 --json | jq .sessions[].folder
               rta-supervisor archive --session run-17 --check-files
               rta-supervisor archive --master spark://spark.example.com:7077
    """
    names = options.check_names(
        options.SessionNames(arguments["identities"], arguments["external_ids"], arguments["principal"])
    )
    archive_filter = ArchiveFilter(
        identities=tuple(one_shot.run(config, lambda link: session_lookup.resolve(link, config, names))),
        streams=arguments["streams"],
        sources=arguments["sources"],
        since_ms=(since_ns or 0) // MS_NS,
        limit=arguments["limit"],
        closed_only=arguments["closed_only"],
    )
    folder = _archive_folder(config, path)
    is_dry, as_json = arguments["dry_run"], arguments["as_json"]
    candidates = one_shot.run(config, lambda link: _find_candidates(link, config, archive_filter, is_dry=is_dry))
    if is_dry:
        _print_plan(preview.unarchived(config, folder, candidates), folder, as_json=as_json)
        return
    archived: list[ArchivedSession] = []
    archive_options = archive_run.ArchiveOptions(
        folder,
        arguments["master"],
        arguments["timeout_s"],
        refuse_incomplete=arguments["refuse_incomplete"],
        check_files=arguments["check_files"],
    )
    with _progress_bar(enabled=bool(candidates)) as show_progress:
        try:
            archive_run.ArchiveRun(config, archive_options, archived.append, show_progress).run(candidates)
        finally:
            _print_archived(archived, as_json=as_json)
    if any(session.outcome == "failed" for session in archived):
        raise click.exceptions.Exit(SOME_FAILED)


async def _find_candidates(
    link: Link, config: settings.Settings, archive_filter: ArchiveFilter, *, is_dry: bool
) -> list[ArchiveCandidate]:
    """Sessions to archive. Raises where no supervisor runs that could record the result, but for a dry run."""
    if not is_dry:
        await control_client.OperatorClient(link, config).check_is_served()
    return await archive_candidates.find(link, config, archive_filter)


def _archive_folder(config: settings.Settings, path: Path | None) -> Path:
    if path is None and not config.archive.path:
        raise errors.BadConfiguration(where="archive.path", reason="it is empty. Set it, or name a folder with --path")
    return Path(config.archive.folder) if path is None else path.absolute()


@contextmanager
def _progress_bar(*, enabled: bool) -> Iterator[archive_run.OnProgress]:
    """A bar on a terminal, nothing elsewhere. Gives the function that takes the share which is done, 0 to 1."""
    console = output.console(stderr=True)
    if not enabled or not console.is_terminal:
        yield lambda _: None
        return
    columns = (progress.TextColumn("archiving"), progress.BarColumn(), progress.TaskProgressColumn())
    with progress.Progress(*columns, progress.TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("archiving", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print_plan(candidates: Sequence[ArchiveCandidate], folder: Path, *, as_json: bool) -> None:
    sessions = [
        PlannedSession(
            identity=candidate.identity,
            stream_session_id=candidate.stream_session_id,
            stream=candidate.stream,
            source=candidate.source,
            state=candidate.state.value,
            samples=candidate.samples,
            stored_bytes=candidate.stored_bytes,
            folder=str(folder / candidate.folder),
            incomplete=candidate.is_trimmed,
        )
        for candidate in candidates
    ]
    if as_json:
        output.print_json({"sessions": sessions})
        return
    table = output.table("session", "state", "stream", "id", "samples", "bytes", "to", right=("id", "samples", "bytes"))
    for session in sessions:
        state = output.state(session.state)
        table.add_row(
            output.escape(session.identity),
            state + " (trimmed)" if session.incomplete else state,
            session.stream,
            str(session.stream_session_id),
            output.count(session.samples),
            output.size(session.stored_bytes),
            session.folder,
        )
    console = output.console()
    console.print(table)
    samples = sum(session.samples for session in sessions)
    size = output.size(sum(session.stored_bytes for session in sessions))
    console.print(f"{len(sessions):,} sessions, {samples:,} samples, {size} in Redis")


def _print_archived(sessions: Sequence[ArchivedSession], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"sessions": sessions})
        return
    console, error_console = output.console(), output.console(stderr=True)
    for session in sessions:
        name, problem = output.escape(session.identity), output.escape(session.problem)
        if session.outcome == "failed":
            error_console.print(f"failed: {problem}")
            continue
        size = output.size(session.size_bytes)
        part = f", part {session.part}" if session.outcome == "part" else ""
        console.print(f"{name}{part}: {session.samples:,} samples, {session.events:,} events, {size}, {session.folder}")
        if problem:
            missing = "it lacks " if not session.complete and session.outcome != "unnoted" else ""
            error_console.print(f"warning: {name}: {missing}{problem}")
    failed = sum(session.outcome == "failed" for session in sessions)
    parts = sum(session.outcome == "part" for session in sessions)
    counts = [f"{len(sessions) - failed - parts:,} sessions archived"]
    counts += [f"{parts:,} parts of open sessions"] if parts else []
    counts += [f"{failed:,} failed"] if failed else []
    console.print(", ".join(counts))
