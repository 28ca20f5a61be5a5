"""Archives sessions: has Spark make files, finishes one session after the other, and has each noted by a supervisor.

Every step may be the last: a session whose folder is in its place is only noted by the next run, any other is begun
anew.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from rta_supervisor.archive import finalize, folders, plan, spark_process
from rta_supervisor.archive.manifest import Manifest
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_supervisor.control import client as control_client
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, credentials, errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

NOTE_TRIES: Final = 5

OnArchived = Callable[["ArchivedSession"], None]
OnProgress = Callable[[float], None]


class ArchivedSession(msgspec.Struct, frozen=True):
    """What became of one session."""

    identity: str
    stream_session_id: int
    stream: str
    outcome: str
    """`archived`, `noted` (its files were in their place already), `incomplete` or `failed`."""
    folder: str = ""
    samples: int = 0
    events: int = 0
    size_bytes: int = 0
    complete: bool = False
    checksum: str = ""
    problem: str = ""


class ArchiveOptions(msgspec.Struct, frozen=True):
    """How it is done."""

    path: Path
    master: str
    timeout_s: float
    refuse_incomplete: bool = False


class ArchiveRun:
    """One run."""

    def __init__(
        self, loaded: settings.Settings, options: ArchiveOptions, on_archived: OnArchived, on_progress: OnProgress
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._on_archived = on_archived
        self._on_progress = on_progress

    def run(self, todo: Sequence[ArchiveCandidate]) -> None:
        """All of them, those first whose files are in their place."""
        with folders.staging_folder(self._options.path) as aside:
            new = []
            there: list[tuple[ArchiveCandidate, Manifest]] = []
            for session in todo:
                with self._failing(session):
                    found = finalize.refresh_manifest(session, self._options.path)
                    if found is None:
                        new.append(session)
                    else:
                        there.append((session, found))
            self._record(there, "noted")
            if new:
                self._make(new, aside)

    def _make(self, todo: Sequence[ArchiveCandidate], aside: Path) -> None:
        passes = plan.passes(todo, self._loaded.archive)
        order = archive_spec.ArchiveSpec(
            redis_url=_url(self._loaded.redis),
            key_prefix=self._loaded.keys.prefix,
            session_template=self._loaded.keys.session_template,
            master=self._options.master,
            folder=str(aside),
            level=self._loaded.archive.level,
            split_bytes=self._loaded.archive.split_bytes,
            passes=passes,
        )
        sizes = [sum(one.size_bytes for one in work.sessions.values()) or 1 for work in passes]
        by_number = {session.stream_session_id: session for session in todo}
        checked: finalize.VerifiedFiles = {}
        for answer in spark_process.run_job(order, aside):
            if isinstance(answer, archive_spec.JobProgress):
                done = sum(sizes[: answer.number]) + sizes[answer.number] * answer.share
                self._on_progress(done / sum(sizes))
            elif isinstance(answer, archive_spec.PassWritten):
                checked = self._check(answer, aside)
            elif isinstance(answer, archive_spec.PassDone):
                found = ((by_number[one.stream_session_id], one) for one in answer.outcomes)
                self._finish(found, checked, aside)
                self._on_progress(sum(sizes[: answer.number + 1]) / sum(sizes))

    def _check(self, written: archive_spec.PassWritten, aside: Path) -> finalize.VerifiedFiles:
        """Read back while Spark counts in the streams."""
        checked: finalize.VerifiedFiles = {}
        try:
            for number, files in written.files.items():
                checked |= finalize.verify_files(number, files, aside)
        except OSError as error:
            raise folders.unwritable(self._options.path, error) from error
        return checked

    def _finish(
        self,
        found: Iterable[tuple[ArchiveCandidate, archive_spec.SessionResult]],
        checked: finalize.VerifiedFiles,
        aside: Path,
    ) -> None:
        done: list[tuple[ArchiveCandidate, Manifest]] = []
        for session, outcome in found:
            with self._failing(session):
                if outcome.problem:
                    raise errors.NotArchivable(identity=session.identity, reason=outcome.problem)
                lacks = finalize.describe_missing(session, outcome)
                if lacks and self._options.refuse_incomplete:
                    raise errors.NotArchivable(identity=session.identity, reason=f"it lacks {'; '.join(lacks)}")
                done.append((session, finalize.finalize(session, outcome, checked, aside, self._options.path)))
        self._record(done, "archived")

    def _record(self, done: Sequence[tuple[ArchiveCandidate, Manifest]], outcome: str) -> None:
        """Have supervisors note what is in its place."""
        if done:
            one_shot.run(self._loaded, lambda link: self._record_all(link, done, outcome))

    async def _record_all(self, link: Link, done: Sequence[tuple[ArchiveCandidate, Manifest]], outcome: str) -> None:
        asker = control_client.OperatorClient(link, self._loaded, timeout_s=self._options.timeout_s)
        for session, made in done:
            try:
                noted = await self._record_one(link, asker, session, made)
            except errors.UnknownSession as error:
                # It expired while its files were made. They are in their place; nobody waits for the note.
                self._on_archived(_archived(session, made, self._options.path, "unnoted", str(error)))
                continue
            words = "; ".join(noted.missing)
            self._on_archived(
                _archived(session, noted, self._options.path, outcome if noted.complete else "incomplete", words)
            )

    async def _record_one(
        self, link: Link, asker: control_client.OperatorClient, session: ArchiveCandidate, made: Manifest
    ) -> Manifest:
        """Where the session changed meanwhile, its JSON is written anew."""
        for _ in range(NOTE_TRIES):
            try:
                await asker.request(_request(made, self._options.path / session.folder))
            except errors.ArchiveStale:
                latest = (await plan.read(link, self._loaded, [session.identity])).get(session.identity)
                if latest is None or latest.stream_session_id != session.stream_session_id:
                    raise errors.UnknownSession(identity=session.identity) from None
                made = finalize.refresh_manifest(latest, self._options.path) or made
            else:
                return made
        raise errors.ArchiveStale(identity=session.identity)

    @contextlib.contextmanager
    def _failing(self, session: ArchiveCandidate) -> Iterator[None]:
        """What is wrong with one session keeps no other from being archived."""
        try:
            yield
        except errors.NotArchivable as error:
            self._on_archived(
                ArchivedSession(
                    session.identity, session.stream_session_id, session.stream, "failed", problem=str(error)
                )
            )


def _archived(session: ArchiveCandidate, made: Manifest, path: Path, outcome: str, problem: str) -> ArchivedSession:
    return ArchivedSession(
        identity=session.identity,
        stream_session_id=session.stream_session_id,
        stream=session.stream,
        outcome=outcome,
        folder=str(path / session.folder),
        samples=made.rows["samples"],
        events=made.rows["events"],
        size_bytes=made.size_bytes,
        complete=made.complete,
        checksum=made.checksum,
        problem=problem,
    )


def _request(made: Manifest, folder: Path) -> control_pb2.NoteArchived:
    return control_pb2.NoteArchived(
        request_id=messages.new_request_id(),
        identity=made.identity,
        stream_session_id=made.stream_session_id,
        version=made.version,
        checksum=made.checksum,
        location=str(folder),
        first_id=made.first_id,
        last_id=made.last_id,
        entries=made.entries,
        size_bytes=made.size_bytes,
    )


def _url(redis: settings.RedisSettings) -> str:
    """The address for Spark's tasks: files are named in it, and each process reads its own."""
    files = {name: path for name in credentials.FILES if (path := getattr(redis, name))}
    if not files:
        return redis.url
    return f"{redis.url}{'&' if '?' in redis.url else '?'}{urlencode(files)}"
