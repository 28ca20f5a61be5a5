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
from rta_supervisor.archive.plan import Candidate
from rta_supervisor.control import client as control_client
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, credentials, errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2

NOTE_TRIES: Final = 5

Told = Callable[["Archived"], None]
Shown = Callable[[float], None]


class Archived(msgspec.Struct, frozen=True):
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


class Way(msgspec.Struct, frozen=True):
    """How it is done."""

    path: Path
    master: str
    timeout_s: float
    refuse_incomplete: bool = False


class Archiver:
    """One run."""

    def __init__(self, loaded: settings.Settings, way: Way, tell: Told, show: Shown) -> None:
        self._loaded = loaded
        self._way = way
        self._tell = tell
        self._show = show

    def run(self, todo: Sequence[Candidate]) -> None:
        """All of them, those first whose files are in their place."""
        with folders.writing(self._way.path) as aside:
            new = []
            there: list[tuple[Candidate, Manifest]] = []
            for session in todo:
                with self._failing(session):
                    found = finalize.refresh(session, self._way.path)
                    if found is None:
                        new.append(session)
                    else:
                        there.append((session, found))
            self._note(there, "noted")
            if new:
                self._make(new, aside)

    def _make(self, todo: Sequence[Candidate], aside: Path) -> None:
        passes = plan.passes(todo, self._loaded.archive)
        order = archive_spec.Order(
            redis_url=_url(self._loaded.redis),
            key_prefix=self._loaded.keys.prefix,
            session_template=self._loaded.keys.session_template,
            master=self._way.master,
            folder=str(aside),
            level=self._loaded.archive.level,
            split_bytes=self._loaded.archive.split_bytes,
            passes=passes,
        )
        sizes = [sum(one.size_bytes for one in work.sessions.values()) or 1 for work in passes]
        by_number = {session.stream_session_id: session for session in todo}
        checked: finalize.CheckedFiles = {}
        for answer in spark_process.answers(order, aside):
            if isinstance(answer, archive_spec.Progress):
                done = sum(sizes[: answer.number]) + sizes[answer.number] * answer.share
                self._show(done / sum(sizes))
            elif isinstance(answer, archive_spec.Written):
                checked = self._check(answer, aside)
            elif isinstance(answer, archive_spec.PassDone):
                found = ((by_number[one.stream_session_id], one) for one in answer.outcomes)
                self._finish(found, checked, aside)
                self._show(sum(sizes[: answer.number + 1]) / sum(sizes))

    def _check(self, written: archive_spec.Written, aside: Path) -> finalize.CheckedFiles:
        """Read back while Spark counts in the streams."""
        checked: finalize.CheckedFiles = {}
        try:
            for number, files in written.files.items():
                checked |= finalize.check(number, files, aside)
        except OSError as error:
            raise folders.unwritable(self._way.path, error) from error
        return checked

    def _finish(
        self, found: Iterable[tuple[Candidate, archive_spec.Outcome]], checked: finalize.CheckedFiles, aside: Path
    ) -> None:
        done: list[tuple[Candidate, Manifest]] = []
        for session, outcome in found:
            with self._failing(session):
                if outcome.problem:
                    raise errors.NotArchivable(identity=session.identity, reason=outcome.problem)
                lacks = finalize.missing(session, outcome)
                if lacks and self._way.refuse_incomplete:
                    raise errors.NotArchivable(identity=session.identity, reason=f"it lacks {'; '.join(lacks)}")
                done.append((session, finalize.finish(session, outcome, checked, aside, self._way.path)))
        self._note(done, "archived")

    def _note(self, done: Sequence[tuple[Candidate, Manifest]], outcome: str) -> None:
        """Have supervisors note what is in its place."""
        if done:
            one_shot.run(self._loaded, lambda link: self._note_all(link, done, outcome))

    async def _note_all(self, link: Link, done: Sequence[tuple[Candidate, Manifest]], outcome: str) -> None:
        asker = control_client.Asker(link, self._loaded, timeout_s=self._way.timeout_s)
        for session, made in done:
            try:
                noted = await self._note_one(link, asker, session, made)
            except errors.UnknownSession as error:
                # It expired while its files were made. They are in their place; nobody waits for the note.
                self._tell(_archived(session, made, self._way.path, "unnoted", str(error)))
                continue
            words = "; ".join(noted.missing)
            self._tell(_archived(session, noted, self._way.path, outcome if noted.complete else "incomplete", words))

    async def _note_one(self, link: Link, asker: control_client.Asker, session: Candidate, made: Manifest) -> Manifest:
        """Where the session changed meanwhile, its JSON is written anew."""
        for _ in range(NOTE_TRIES):
            try:
                await asker.ask(_request(made, self._way.path / session.place))
            except errors.ArchiveStale:
                latest = (await plan.read(link, self._loaded, [session.identity])).get(session.identity)
                if latest is None or latest.stream_session_id != session.stream_session_id:
                    raise errors.UnknownSession(identity=session.identity) from None
                made = finalize.refresh(latest, self._way.path) or made
            else:
                return made
        raise errors.ArchiveStale(identity=session.identity)

    @contextlib.contextmanager
    def _failing(self, session: Candidate) -> Iterator[None]:
        """What is wrong with one session keeps no other from being archived."""
        try:
            yield
        except errors.NotArchivable as error:
            self._tell(
                Archived(session.identity, session.stream_session_id, session.stream, "failed", problem=str(error))
            )


def _archived(session: Candidate, made: Manifest, path: Path, outcome: str, problem: str) -> Archived:
    return Archived(
        identity=session.identity,
        stream_session_id=session.stream_session_id,
        stream=session.stream,
        outcome=outcome,
        folder=str(path / session.place),
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
