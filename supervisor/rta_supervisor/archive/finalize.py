"""The last steps for one session: its files are read back and compared with what its stream held, then they get a
manifest and are moved to their folder in the archive.

A run that ends in between leaves a staging folder that the next run removes.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from rta_supervisor.archive import folders, manifest, verify
from rta_supervisor.archive.manifest import Manifest, ManifestFile
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_wire import archive_spec, content_digest, errors

VerifiedFiles = dict[str, verify.VerifiedFile]
"""Files that were read back, by name. Names of files are unique in a run."""


def describe_missing(candidate: ArchiveCandidate, result: archive_spec.SessionResult) -> tuple[str, ...]:
    """What the archive of a session lacks, as phrases for people. Empty: it is complete."""
    if not result.entries:
        return ("all of its entries: they are gone from Redis",)
    missing = []
    if not result.begins_with_json:
        missing.append(f"entries before {result.first_id}: they were trimmed")
    if result.samples.rows < candidate.samples:
        lost = candidate.samples - result.samples.rows
        missing.append(f"{lost} of {candidate.samples} samples that were reported")
    return tuple(missing)


def verify_files(stream_session_id: int, files: Iterable[archive_spec.ArchiveFile], staging: Path) -> VerifiedFiles:
    """Read the files of a session back."""
    return {file.name: verify.verify_file(staging / str(stream_session_id) / file.name, file.kind) for file in files}


def finalize(
    candidate: ArchiveCandidate,
    result: archive_spec.SessionResult,
    verified: VerifiedFiles,
    staging: Path,
    archive: Path,
) -> Manifest:
    """Give the files of a session their manifest, and move them from the staging folder into the archive.

    Raises `ArchiveDiffers` where the files do not hold what the stream held.
    """
    folder = staging / str(candidate.stream_session_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new = build_manifest(candidate, result, verified)
        for path in folder.iterdir():
            if path.name not in {file.name for file in new.files}:
                path.unlink()  # left by a failed attempt of a Spark task
        folders.write_durably(folder / folders.SESSION, candidate.document)
        new.write(folder)
        folders.move_into_place(folder, archive / candidate.folder)
    except OSError as error:
        raise folders.unwritable(archive, error) from error
    return new


def refresh_manifest(candidate: ArchiveCandidate, archive: Path) -> Manifest | None:
    """Write the newest Session JSON of a session beside files that are in the archive, and return their manifest.

    None: the archive has no files of the session.
    """
    folder = archive / candidate.folder
    old = manifest.read(folder, candidate.identity)
    if old is None:
        return None
    new = old.with_document(candidate.document, candidate.version, candidate.state.value)
    if new != old:
        try:
            folders.write_durably(folder / folders.SESSION, candidate.document)
            new.write(folder)
        except OSError as error:
            raise folders.unwritable(archive, error) from error
    return new


def build_manifest(
    candidate: ArchiveCandidate, result: archive_spec.SessionResult, verified: VerifiedFiles
) -> Manifest:
    """The manifest of verified files. Raises `ArchiveDiffers` where they do not hold what the stream held."""
    in_stream = {"samples": _digest(result.samples), "events": _digest(result.events)}
    in_files = {kind: content_digest.Digest() for kind in in_stream}
    files = []
    for file in result.files:
        actual = verified[file.name]
        in_files[file.kind] = in_files[file.kind].sum_of(actual.content)
        files.append(ManifestFile(file.name, file.kind, actual.content.rows, actual.size_bytes, actual.sha256))
    for kind, digest in in_stream.items():
        _check_same(candidate, kind, in_files[kind], digest)
    rows, content = manifest.content(in_stream["samples"], in_stream["events"])
    missing = describe_missing(candidate, result)
    return Manifest(
        identity=candidate.identity,
        stream_session_id=candidate.stream_session_id,
        stream=candidate.stream,
        source=candidate.source,
        date=folders.day(candidate.opened_ms),
        state=candidate.state.value,
        version=candidate.version,
        entries=result.entries,
        first_id=result.first_id,
        last_id=result.last_id,
        rows=rows,
        content=content,
        complete=not missing,
        missing=missing,
        session_sha256=hashlib.sha256(candidate.document).hexdigest(),
        files=tuple(files),
    ).with_checksum()


def _check_same(
    candidate: ArchiveCandidate, kind: str, in_files: content_digest.Digest, in_stream: content_digest.Digest
) -> None:
    if in_files == in_stream:
        return
    counts = f"{in_files.rows} {kind} in the files, {in_stream.rows} in the stream"
    reason = counts if in_files.rows != in_stream.rows else f"{counts}, but not the same"
    raise errors.ArchiveDiffers(identity=candidate.identity, reason=reason)


def _digest(row_sum: archive_spec.RowSum) -> content_digest.Digest:
    return content_digest.Digest(row_sum.rows, row_sum.sum)
