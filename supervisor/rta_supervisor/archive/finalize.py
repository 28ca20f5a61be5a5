"""The last steps for one session: its files are read back and compared with what its stream held, then they get their
manifest and their place. Whatever ends it in between leaves a folder aside that the next run removes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from rta_supervisor.archive import folders, manifest, verify
from rta_supervisor.archive.manifest import Manifest, ManifestFile
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_wire import archive_spec, content_digest, errors


def describe_missing(session: ArchiveCandidate, found: archive_spec.SessionResult) -> tuple[str, ...]:
    """What the archive of a session lacks, in words."""
    if not found.entries:
        return ("all of its entries: they are gone from Redis",)
    lacks = []
    if not found.begins_with_json:
        lacks.append(f"entries before {found.first_id}: they were trimmed")
    if found.samples.rows < session.samples:
        lacks.append(f"{session.samples - found.samples.rows} of {session.samples} samples that were reported")
    return tuple(lacks)


VerifiedFiles = dict[str, verify.VerifiedFile]
"""By name: names of files are unique."""


def verify_files(number: int, files: Iterable[archive_spec.ArchiveFile], aside: Path) -> VerifiedFiles:
    """Read files of a session back."""
    return {file.name: verify.verify_file(aside / str(number) / file.name, file.kind) for file in files}


def finalize(
    session: ArchiveCandidate, found: archive_spec.SessionResult, checked: VerifiedFiles, aside: Path, archive: Path
) -> Manifest:
    """From files aside to a folder in its place."""
    folder = aside / str(session.stream_session_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = build_manifest(session, found, checked)
        for path in folder.iterdir():
            if path.name not in {file.name for file in made.files}:
                path.unlink()  # of an attempt of Spark's that did not count
        folders.write_durably(folder / folders.SESSION, session.document)
        made.write(folder)
        folders.move_into_place(folder, archive / session.folder)
    except OSError as error:
        raise folders.unwritable(archive, error) from error
    return made


def refresh_manifest(session: ArchiveCandidate, archive: Path) -> Manifest | None:
    """The manifest of a session that is in its place, beside its newest JSON. None: it is not there."""
    folder = archive / session.folder
    found = manifest.read(folder, session.identity)
    if found is None:
        return None
    newer = found.with_document(session.document, session.version, session.state.value)
    if newer != found:
        try:
            folders.write_durably(folder / folders.SESSION, session.document)
            newer.write(folder)
        except OSError as error:
            raise folders.unwritable(archive, error) from error
    return newer


def build_manifest(session: ArchiveCandidate, found: archive_spec.SessionResult, checked: VerifiedFiles) -> Manifest:
    """The manifest of files that hold what the stream held, or an error."""
    held = {"samples": _digest(found.samples), "events": _digest(found.events)}
    there = {kind: content_digest.Digest() for kind in held}
    files = []
    for file in found.files:
        one = checked[file.name]
        there[file.kind] = there[file.kind].sum_of(one.content)
        files.append(ManifestFile(file.name, file.kind, one.content.rows, one.size_bytes, one.sha256))
    for kind, wanted in held.items():
        if there[kind] != wanted:
            counts = f"{there[kind].rows} {kind} in the files, {wanted.rows} in the stream"
            reason = counts if there[kind].rows != wanted.rows else f"{counts}, but not the same"
            raise errors.ArchiveDiffers(identity=session.identity, reason=reason)
    rows, content = manifest.content(held["samples"], held["events"])
    lacks = describe_missing(session, found)
    return Manifest(
        identity=session.identity,
        stream_session_id=session.stream_session_id,
        stream=session.stream,
        source=session.source,
        date=folders.day(session.opened_ms),
        state=session.state.value,
        version=session.version,
        entries=found.entries,
        first_id=found.first_id,
        last_id=found.last_id,
        rows=rows,
        content=content,
        complete=not lacks,
        missing=lacks,
        session_sha256=hashlib.sha256(session.document).hexdigest(),
        files=tuple(files),
    ).with_checksum()


def _digest(counted: archive_spec.RowSum) -> content_digest.Digest:
    return content_digest.Digest(counted.rows, counted.sum)
