"""The last steps for one session: its files get a manifest, once they are verified against its stream, and are moved to
their folder in the archive. The comparison is in `verify`.

A run that ends in between leaves a staging folder that the next run removes.
"""

import hashlib
from pathlib import Path

from rta_supervisor.archive import folders, manifest, verify
from rta_supervisor.archive.manifest import Manifest, ManifestFile
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_wire import archive_spec


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


def finalize(
    candidate: ArchiveCandidate,
    result: archive_spec.SessionResult,
    contents: verify.FileContents,
    staging: Path,
    archive: Path,
) -> Manifest:
    """Give the files of a session their manifest, and move them from the staging folder into the archive.

    `contents`: what was read back of them. Raises `ArchiveDiffers` where they do not hold what the stream held.
    """
    verify.check_same_as_stream(candidate.identity, result, contents)
    folder = staging / str(candidate.stream_session_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new = build_manifest(candidate, result, contents)
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
    candidate: ArchiveCandidate, result: archive_spec.SessionResult, contents: verify.FileContents
) -> Manifest:
    """The manifest of a session whose files hold what its stream held."""
    files = []
    for file in result.files:
        content = contents[file.name]
        files.append(ManifestFile(file.name, file.kind, content.digest.rows, content.size_bytes, content.sha256))
    rows, digests = manifest.content(verify.stream_digest(result.samples), verify.stream_digest(result.events))
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
        content=digests,
        complete=not missing,
        missing=missing,
        session_sha256=hashlib.sha256(candidate.document).hexdigest(),
        files=tuple(files),
    ).with_checksum()
