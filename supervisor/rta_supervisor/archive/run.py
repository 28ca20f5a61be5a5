"""One run of the archive: starts the Spark job that writes files, finalizes one session after the other, and has each
recorded by a supervisor.

A run may end at any step: the next run has sessions recorded whose folder is in the archive, and begins all others
again.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from rta_supervisor.archive import finalize, folders, plan, spark_process, verify
from rta_supervisor.archive.manifest import Manifest
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_supervisor.archive.record_client import ArchiveRecordClient
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, credentials, errors

OnArchived = Callable[["ArchivedSession"], None]
OnProgress = Callable[[float], None]
"""Called with the share of the run that is done, 0 to 1."""


class ArchivedSession(msgspec.Struct, frozen=True):
    """The outcome of a run for one session."""

    identity: str
    stream_session_id: int
    stream: str
    outcome: str
    """`archived`, `noted` (its files were in the archive before), `incomplete`, `unnoted` (it expired before it was
    recorded) or `failed`."""
    folder: str = ""
    samples: int = 0
    events: int = 0
    size_bytes: int = 0
    complete: bool = False
    checksum: str = ""
    problem: str = ""


class ArchiveOptions(msgspec.Struct, frozen=True):
    """Where a run writes to, and how."""

    path: Path
    master: str
    """The master of Spark."""
    timeout_s: float
    refuse_incomplete: bool = False


class ArchiveRun:
    """One run, which reports each session and its progress to two callbacks."""

    def __init__(
        self, config: settings.Settings, options: ArchiveOptions, on_archived: OnArchived, on_progress: OnProgress
    ) -> None:
        self._config = config
        self._options = options
        self._on_archived = on_archived
        self._on_progress = on_progress

    def run(self, candidates: Sequence[ArchiveCandidate]) -> None:
        """Archive sessions; those come first whose files are in the archive and only have to be recorded."""
        with folders.staging_folder(self._options.path) as staging:
            new = []
            existing: list[tuple[ArchiveCandidate, Manifest]] = []
            for candidate in candidates:
                with self._reporting_failure(candidate):
                    manifest = finalize.refresh_manifest(candidate, self._options.path)
                    if manifest is None:
                        new.append(candidate)
                    else:
                        existing.append((candidate, manifest))
            self._record(existing, "noted")
            if new:
                self._archive(new, staging)

    def _archive(self, candidates: Sequence[ArchiveCandidate], staging: Path) -> None:
        """Run the Spark job, and finalize the sessions of each pass when it is done."""
        spec = self._spec(candidates, staging)
        sizes = [sum(session.size_bytes for session in one_pass.sessions.values()) or 1 for one_pass in spec.passes]
        by_session_id = {candidate.stream_session_id: candidate for candidate in candidates}
        contents: verify.FileContents = {}
        for event in spark_process.run_job(spec, staging):
            if isinstance(event, archive_spec.JobProgress):
                done = sum(sizes[: event.number]) + sizes[event.number] * event.share
                self._on_progress(done / sum(sizes))
            elif isinstance(event, archive_spec.PassWritten):
                contents = self._read_back(event, staging)
            elif isinstance(event, archive_spec.PassDone):
                results = [(by_session_id[result.stream_session_id], result) for result in event.outcomes]
                self._finalize(results, contents, staging)
                self._on_progress(sum(sizes[: event.number + 1]) / sum(sizes))

    def _spec(self, candidates: Sequence[ArchiveCandidate], staging: Path) -> archive_spec.ArchiveSpec:
        return archive_spec.ArchiveSpec(
            redis_url=_url_for_tasks(self._config.redis),
            key_prefix=self._config.keys.prefix,
            session_template=self._config.keys.session_template,
            master=self._options.master,
            folder=str(staging),
            level=self._config.archive.level,
            split_bytes=self._config.archive.split_bytes,
            passes=plan.passes(candidates, self._config.archive),
        )

    def _read_back(self, written: archive_spec.PassWritten, staging: Path) -> verify.FileContents:
        """Read the files of a pass back, while Spark counts in the streams what should be in them."""
        contents: verify.FileContents = {}
        try:
            for stream_session_id, files in written.files.items():
                contents |= verify.read_files(stream_session_id, files, staging)
        except OSError as error:
            raise folders.unwritable(self._options.path, error) from error
        return contents

    def _finalize(
        self,
        results: Sequence[tuple[ArchiveCandidate, archive_spec.SessionResult]],
        contents: verify.FileContents,
        staging: Path,
    ) -> None:
        finalized: list[tuple[ArchiveCandidate, Manifest]] = []
        for candidate, result in results:
            with self._reporting_failure(candidate):
                if result.problem:
                    raise errors.NotArchivable(identity=candidate.identity, reason=result.problem)
                missing = finalize.describe_missing(candidate, result)
                if missing and self._options.refuse_incomplete:
                    raise errors.NotArchivable(identity=candidate.identity, reason=f"it lacks {'; '.join(missing)}")
                manifest = finalize.finalize(candidate, result, contents, staging, self._options.path)
                finalized.append((candidate, manifest))
        self._record(finalized, "archived")

    def _record(self, finalized: Sequence[tuple[ArchiveCandidate, Manifest]], outcome: str) -> None:
        """Have a supervisor record sessions whose files are in the archive."""
        if finalized:
            one_shot.run(self._config, lambda link: self._record_all(link, finalized, outcome))

    async def _record_all(
        self, link: Link, finalized: Sequence[tuple[ArchiveCandidate, Manifest]], outcome: str
    ) -> None:
        path, timeout_s = self._options.path, self._options.timeout_s
        client = ArchiveRecordClient(link, self._config, path, timeout_s=timeout_s)
        for candidate, manifest in finalized:
            try:
                recorded = await client.record(candidate, manifest)
            except errors.UnknownSession as error:
                # It expired while its files were made. They are in the archive, and nothing waits for the record.
                self._on_archived(_archived(candidate, manifest, path, "unnoted", str(error)))
                continue
            actual_outcome = outcome if recorded.complete else "incomplete"
            self._on_archived(_archived(candidate, recorded, path, actual_outcome, "; ".join(recorded.missing)))

    @contextlib.contextmanager
    def _reporting_failure(self, candidate: ArchiveCandidate) -> Iterator[None]:
        """Report a session that can't be archived, which keeps no other from being archived."""
        try:
            yield
        except errors.NotArchivable as error:
            self._on_archived(
                ArchivedSession(
                    candidate.identity, candidate.stream_session_id, candidate.stream, "failed", problem=str(error)
                )
            )


def _archived(
    candidate: ArchiveCandidate, manifest: Manifest, path: Path, outcome: str, problem: str
) -> ArchivedSession:
    return ArchivedSession(
        identity=candidate.identity,
        stream_session_id=candidate.stream_session_id,
        stream=candidate.stream,
        outcome=outcome,
        folder=str(path / candidate.folder),
        samples=manifest.rows["samples"],
        events=manifest.rows["events"],
        size_bytes=manifest.size_bytes,
        complete=manifest.complete,
        checksum=manifest.checksum,
        problem=problem,
    )


def _url_for_tasks(redis: settings.RedisSettings) -> str:
    """The URL for Spark's tasks. Files with credentials are named in it, and each process reads them itself."""
    files = {name: path for name in credentials.FILES if (path := getattr(redis, name))}
    if not files:
        return redis.url
    return f"{redis.url}{'&' if '?' in redis.url else '?'}{urlencode(files)}"
