"""One run of the archive: starts the Spark job that writes files, finalizes one session after the other, and has each
recorded by a supervisor.

A session that is open gets a part with what is new since the last one. A run may end at any step: the next run has
sessions recorded whose files are in the archive, and begins all others again, with the part that is missing.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from rta_supervisor.archive import candidates as archive_candidates
from rta_supervisor.archive import finalize, folders, plan, spark_process, verify
from rta_supervisor.archive import manifest as archive_manifest
from rta_supervisor.archive.configs import ArchivedConfigs
from rta_supervisor.archive.plan import ArchiveCandidate, PlannedPart
from rta_supervisor.archive.record_client import ArchiveRecordClient
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, credentials, entry_ids, errors
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import Manifest, PartManifest
from rta_wire.stream.live_then_cold import StreamCounters

OnArchived = Callable[["ArchivedSession"], None]
OnProgress = Callable[[float], None]
"""Called with the share of the run that is done, 0 to 1."""


class ArchivedSession(msgspec.Struct, frozen=True):
    """The outcome of a run for one session."""

    identity: str
    stream_session_id: int
    stream: str
    outcome: str
    """`archived`, `part` (of a session that is still open), `noted` (its files were in the archive before),
    `incomplete`, `unnoted` (it expired before it was recorded) or `failed`."""
    folder: str = ""
    samples: int = 0
    events: int = 0
    size_bytes: int = 0
    complete: bool = False
    checksum: str = ""
    problem: str = ""
    part: int = 0
    """The number of the part that was written of an open session."""
    until: str = ""
    """The last entry up to which an open session is archived."""


class ArchiveOptions(msgspec.Struct, frozen=True):
    """Where a run writes to, and how."""

    path: Path
    master: str
    """The master of Spark."""
    timeout_s: float
    refuse_incomplete: bool = False
    check_files: bool = False
    """Whether all files of the sessions are compared with the checksums in their manifests, and not sizes alone."""


class ArchiveRun:
    """One run, which reports each session and its progress to two callbacks."""

    def __init__(
        self, config: settings.Settings, options: ArchiveOptions, on_archived: OnArchived, on_progress: OnProgress
    ) -> None:
        self._config = config
        self._options = options
        self._on_archived = on_archived
        self._on_progress = on_progress
        self._configs = ArchivedConfigs(config)
        self._failed: set[int] = set()

    def run(self, candidates: Sequence[ArchiveCandidate]) -> None:
        """Archive sessions; those come first whose files are in the archive and only have to be recorded."""
        with folders.staging_folder(self._options.path) as staging:
            # After the states of sessions were read: what is closed by now has its last entry below these.
            streams = {candidate.stream for candidate in candidates}
            counters = self._read_counters(streams)
            planned: list[PlannedPart] = []
            finished: list[tuple[ArchiveCandidate, Manifest]] = []
            for candidate in candidates:
                with self._reporting_failure(candidate):
                    stored = self._stored(candidate, with_content=self._options.check_files)
                    archive = self._repair(candidate, stored, counters[candidate.stream], staging)
                    plan.check_goes_on(candidate, archive, counters[candidate.stream])
                    part = plan.next_part(candidate, archive, counters[candidate.stream])
                    if candidate.state.is_closed and (manifest := self._finished(candidate, archive)) is not None:
                        finished.append((candidate, manifest))
                    else:
                        planned.append(part)
            self._record(finished, "noted")
            self._archive([part for part in planned if not part.is_empty], staging)
            empty = [
                (part, archive_spec.SessionResult(part.candidate.stream_session_id))
                for part in planned
                if part.is_empty
            ]
            self._finalize(empty, {}, staging)

    def _stored(self, candidate: ArchiveCandidate, *, with_content: bool = False) -> SessionArchive:
        """What the archive has of a session, without what killed runs left in its folder."""
        folder = self._options.path / candidate.folder
        archive = archive_manifest.read_session(folder, candidate.identity, with_content=with_content)
        if archive.parts or archive.damaged or folder.exists():
            named = {file.name for part in archive.parts for file in part.files}
            unreadable = set(archive.damaged) - {part.number for part in archive.parts}
            try:
                folders.remove_unnamed(folder, named, unreadable)
            except OSError as error:
                raise folders.unwritable(self._options.path, error) from error
        return archive

    def _repair(
        self, candidate: ArchiveCandidate, archive: SessionArchive, counters: StreamCounters, staging: Path
    ) -> SessionArchive:
        """Archive damaged parts anew, from what the stream still has. Gives what the archive has after that.

        Raises `ArchiveDamaged` where that can't be done: no part is added behind one that is damaged.
        """
        if not archive.damaged:
            return archive
        repaired = archive
        for number in sorted(archive.damaged):
            # Each from what the archive has by then: a part that can't be used counts as one that holds nothing.
            for part in plan.repairs(candidate, repaired, counters):
                if part.number == number:
                    self._archive([part], staging)
            repaired = self._stored(candidate, with_content=self._options.check_files)
        for problem in repaired.damaged.values():
            raise errors.ArchiveDamaged(problem, identity=candidate.identity, path=str(candidate.folder))
        return repaired

    def _finished(self, candidate: ArchiveCandidate, archive: SessionArchive) -> Manifest | None:
        """The manifest of a closed session whose entries are all in the archive, None where some are not."""
        if archive.whole is not None:
            return finalize.refresh_manifest(candidate, self._options.path, self._configs.of(candidate.document))
        if archive.parts and archive.parts[-1].is_last:
            return self._finalize_whole(candidate)
        return None

    def _finalize_whole(self, candidate: ArchiveCandidate, missing: Sequence[str] = ()) -> Manifest:
        configs = self._configs.of(candidate.document)
        return finalize.finalize_whole(candidate, self._options.path, missing, configs)

    def _archive(self, planned: Sequence[PlannedPart], staging: Path) -> None:
        """Run the Spark job, and finalize the parts of each pass when it is done."""
        if not planned:
            return
        spec = self._spec(planned, staging)
        sizes = [sum(session.size_bytes for session in one_pass.sessions.values()) or 1 for one_pass in spec.passes]
        by_session_id = {part.candidate.stream_session_id: part for part in planned}
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

    def _spec(self, planned: Sequence[PlannedPart], staging: Path) -> archive_spec.ArchiveSpec:
        return archive_spec.ArchiveSpec(
            redis_url=_url_for_tasks(self._config.redis),
            key_prefix=self._config.keys.prefix,
            session_template=self._config.keys.session_template,
            master=self._options.master,
            folder=str(staging),
            level=self._config.archive.level,
            split_bytes=self._config.archive.split_bytes,
            passes=plan.passes(planned, self._config.archive),
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
        results: Sequence[tuple[PlannedPart, archive_spec.SessionResult]],
        contents: verify.FileContents,
        staging: Path,
    ) -> None:
        whole: list[tuple[ArchiveCandidate, Manifest]] = []
        parts: list[tuple[PlannedPart, PartManifest | None]] = []
        for planned, result in results:
            candidate = planned.candidate
            with self._reporting_failure(candidate):
                part = self._finalize_part(planned, result, contents, staging)
                if planned.is_last:
                    missing = () if part or planned.archive.parts else finalize.describe_missing(planned, result)
                    whole.append((candidate, self._finalize_whole(candidate, missing)))
                elif planned.is_newest:
                    if part is None and planned.archive.parts and planned.gap is None and _has_news(planned):
                        # Before trimming learns of it, as readers would take what goes for entries of the session.
                        finalize.mark_idle(planned, self._options.path)
                    parts.append((planned, part))
        self._record(whole, "archived")
        if noted := [(planned, part) for planned, part in parts if _has_news(planned)]:
            one_shot.run(self._config, lambda link: self._record_parts(link, noted))

    def _finalize_part(
        self,
        planned: PlannedPart,
        result: archive_spec.SessionResult,
        contents: verify.FileContents,
        staging: Path,
    ) -> PartManifest | None:
        """The part as it stands in the archive; None where there is nothing to put there."""
        identity = planned.candidate.identity
        if result.problem:
            raise errors.NotArchivable(identity=identity, reason=result.problem)
        missing = finalize.describe_missing(planned, result)
        lacking = [*(phrase for part in planned.earlier_parts for phrase in part.missing), *missing]
        if lacking and self._options.refuse_incomplete and planned.replaced is None:
            raise errors.NotArchivable(identity=identity, reason=f"it lacks {'; '.join(lacking)}")
        if planned.is_remade:
            self._check_remade(planned, result)
        if not planned.is_needed(result, missing):
            return None
        configs = self._configs.of(planned.candidate.document)
        return finalize.finalize_part(planned, result, contents, staging, self._options.path, configs=configs)

    def _check_remade(self, planned: PlannedPart, result: archive_spec.SessionResult) -> None:
        """Raise where the stream may no longer have all entries of a part whose manifest can't be read: its files may,
        and are removed once there is another manifest."""
        candidate = planned.candidate
        counters = self._read_counters({candidate.stream})[candidate.stream]
        has_beginning = planned.number > 1 or result.begins_with_json
        if not has_beginning or plan.may_lack_entries(planned, counters):
            problem = planned.archive.damaged[planned.number]
            raise errors.ArchiveDamaged(problem, identity=candidate.identity, path=str(candidate.folder))

    def _read_counters(self, streams: Collection[str]) -> dict[str, StreamCounters]:
        return one_shot.run(self._config, lambda link: archive_candidates.read_counters(link, self._config, streams))

    def _record(self, finalized: Sequence[tuple[ArchiveCandidate, Manifest]], outcome: str) -> None:
        """Have a supervisor record sessions whose files are in the archive."""
        if finalized:
            one_shot.run(self._config, lambda link: self._record_all(link, finalized, outcome))

    async def _record_parts(self, link: Link, noted: Sequence[tuple[PlannedPart, PartManifest | None]]) -> None:
        """Have a supervisor record how far open sessions are archived, so that trimming knows it."""
        path = self._options.path
        client = ArchiveRecordClient(link, self._config, path, timeout_s=self._options.timeout_s)
        for planned, part in noted:
            parts = [*planned.archive.parts, *([part] if part is not None else [])]
            problem = "; ".join(part.missing) if part is not None else ""
            try:
                await client.record_parts(planned.candidate, planned, parts)
            except errors.UnknownSession as error:
                problem = str(error)
            except errors.ArchiveStale:
                problem = "it was closed meanwhile, and the next run archives the rest of it"
            if part is not None:
                self._on_archived(_archived_part(planned.candidate, part, path, problem))

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
        """Report a session that can't be archived, once. It keeps no other from being archived."""
        try:
            yield
        except errors.NotArchivable as error:
            if candidate.stream_session_id in self._failed:
                return
            self._failed.add(candidate.stream_session_id)
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


def _has_news(planned: PlannedPart) -> bool:
    """Whether a supervisor does not know yet that an open session is archived up to there."""
    return entry_ids.is_after(planned.until, planned.candidate.archived_until)


def _archived_part(candidate: ArchiveCandidate, part: PartManifest, path: Path, problem: str) -> ArchivedSession:
    return ArchivedSession(
        identity=candidate.identity,
        stream_session_id=candidate.stream_session_id,
        stream=candidate.stream,
        outcome="part",
        folder=str(path / candidate.folder),
        samples=part.rows["samples"],
        events=part.rows["events"],
        size_bytes=part.size_bytes,
        complete=not part.missing,
        checksum=part.checksum,
        problem=problem,
        part=part.number,
        until=part.until,
    )


def _url_for_tasks(redis: settings.RedisSettings) -> str:
    """The URL for Spark's tasks. Files with credentials are named in it, and each process reads them itself."""
    files = {name: path for name in credentials.FILES if (path := getattr(redis, name))}
    if not files:
        return redis.url
    return f"{redis.url}{'&' if '?' in redis.url else '?'}{urlencode(files)}"
