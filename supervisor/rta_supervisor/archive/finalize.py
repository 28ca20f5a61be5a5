"""The last steps for one part of a session: its files are compared with the stream, moved to their folder, and named by
a manifest. Once the session is closed, a manifest of the whole follows. The comparison is in `verify`.

A run may end at any step. Files that no manifest names are removed by the next run, and written anew.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from rta_supervisor.archive import configs as archived_configs
from rta_supervisor.archive import folders, manifest, verify
from rta_supervisor.archive.plan import ArchiveCandidate, PlannedPart
from rta_wire import archive_spec, errors
from rta_wire.archive import manifest as archive_manifest
from rta_wire.archive import names
from rta_wire.archive.manifest import IdleMark, Manifest, ManifestFile, PartManifest

_MISSING_SAMPLES: Final = re.compile("([0-9]+) of [0-9]+ samples that were reported")


def describe_missing(planned: PlannedPart, result: archive_spec.SessionResult) -> tuple[str, ...]:
    """What the archive of a session lacks with this part, as phrases for people. Empty: it lacks nothing, or no more
    than it lacked with the parts before, which say so: readers of this one miss nothing."""
    candidate, parts = planned.candidate, planned.earlier_parts
    if not result.entries and not parts and not candidate.samples and not planned.is_last:
        return ()
    if not result.entries and not parts:
        return ("all of its entries: they are gone from Redis",)
    missing = []
    # Where earlier runs found no data, they have seen the beginning.
    is_beginning = planned.number == 1 and planned.after == candidate.position
    if result.entries and is_beginning and not result.begins_with_json:
        missing.append(f"entries before {result.first_id}: they were trimmed")
    archived = result.samples.rows + sum(part.rows["samples"] for part in parts)
    if planned.counts_all and candidate.samples - archived > _missing_samples(parts):
        if planned.gap is not None:
            missing.append(f"entries between {planned.gap.after} and {planned.gap.until}: they were trimmed")
        missing.append(f"{candidate.samples - archived} of {candidate.samples} samples that were reported")
    return tuple(missing)


def _missing_samples(parts: Sequence[PartManifest]) -> int:
    """How many samples a session lacks by what its parts say."""
    matches = [_MISSING_SAMPLES.match(phrase) for part in parts for phrase in part.missing]
    return max((int(match[1]) for match in matches if match is not None), default=0)


def finalize_part(
    planned: PlannedPart,
    result: archive_spec.SessionResult,
    contents: verify.FileContents,
    staging: Path,
    archive: Path,
    *,
    configs: Mapping[str, bytes] = MappingProxyType({}),
) -> PartManifest:
    """Give the files of a part their manifest, and move them from the staging folder into the archive.

    `contents`: what was read back of them. `configs`: configurations of the session, by identifier. Raises
    `ArchiveDiffers` where files do not hold what the stream held, and `ArchiveDamaged` where a damaged part can't be
    made anew because the stream no longer has all of it.
    """
    candidate = planned.candidate
    verify.check_same_as_stream(candidate.identity, result, contents)
    part = build_part(planned, result, contents)
    if planned.replaced is not None and part.content != planned.replaced.content:
        problem = planned.archive.damaged[planned.number]
        raise errors.ArchiveDamaged(problem, identity=candidate.identity, path=str(archive / candidate.folder))
    target = archive / candidate.folder
    try:
        folders.move_files(staging / str(candidate.stream_session_id), target, [file.name for file in part.files])
        if not candidate.state.is_closed:
            # Before the part counts: who reads it needs to know the channels, also where Redis has forgotten them.
            _write_description(target, candidate.document, configs)
        folders.write_durably(target / names.part_manifest(part.number), part.encode())
    except OSError as error:
        raise folders.unwritable(archive, error) from error
    return part


def build_part(planned: PlannedPart, result: archive_spec.SessionResult, contents: verify.FileContents) -> PartManifest:
    """The manifest of a part whose files hold what its stream held."""
    candidate = planned.candidate
    files = tuple(
        ManifestFile(
            name=file.name,
            kind=file.kind,
            rows=contents[file.name].digest.rows,
            size_bytes=contents[file.name].size_bytes,
            sha256=contents[file.name].sha256,
            first_id=file.first_id,
            last_id=file.last_id,
            start_ns=file.start_ns,
            end_ns=file.end_ns,
        )
        for file in result.files
    )
    rows, digests = archive_manifest.content(verify.stream_digests(result))
    timed = [file for file in files if file.kind != "messages"]
    missing = describe_missing(planned, result) if planned.replaced is None else planned.replaced.missing
    return PartManifest(
        identity=candidate.identity,
        stream_session_id=candidate.stream_session_id,
        stream=candidate.stream,
        number=planned.number,
        after=_claimed_after(planned),
        until=planned.until,
        added=planned.added,
        entries=result.entries,
        stored_bytes=result.size_bytes,
        first_id=result.first_id,
        last_id=result.last_id,
        rows=rows,
        content=digests,
        start_ns=min((file.start_ns for file in timed if file.start_ns is not None), default=None),
        end_ns=max((file.end_ns for file in timed if file.end_ns is not None), default=None),
        gaps=(planned.gap,) if planned.gap is not None and missing else (),
        missing=missing,
        is_last=planned.is_last or (planned.replaced is not None and planned.replaced.is_last),
        files=files,
    ).with_checksum()


def _claimed_after(planned: PlannedPart) -> str:
    """Where the part begins: where the one before it ends, also if entries in between were of other sessions only."""
    before = [part for part in planned.archive.parts if part.number == planned.number - 1]
    return before[0].until if before else planned.after


def finalize_whole(
    candidate: ArchiveCandidate,
    archive: Path,
    missing: Sequence[str] = (),
    configs: Mapping[str, bytes] = MappingProxyType({}),
) -> Manifest:
    """Write the manifest of a closed session all of whose parts are in the archive, its Session JSON and its
    configurations.

    `missing`: what it lacks where it has no part at all. `configs`: its configurations, by identifier.
    """
    folder = archive / candidate.folder
    stored = manifest.read_session(folder, candidate.identity)
    for problem in stored.damaged.values():
        raise errors.ArchiveDamaged(problem, identity=candidate.identity, path=str(folder))
    new = msgspec.structs.replace(build_manifest(candidate, stored.parts, missing), configs=tuple(sorted(configs)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archived_configs.write(folder, configs)
        folders.write_durably(folder / names.SESSION, candidate.document)
        folders.write_durably(folder / names.MANIFEST, new.encode())
        (folder / names.IDLE).unlink(missing_ok=True)
    except OSError as error:
        raise folders.unwritable(archive, error) from error
    return new


def mark_idle(planned: PlannedPart, archive: Path) -> None:
    """Note beside the parts of an open session up to where its stream has nothing of it behind them."""
    mark = IdleMark(checksum=planned.archive.parts[-1].checksum, until=planned.until, added=planned.added)
    try:
        folders.write_durably(archive / planned.candidate.folder / names.IDLE, archive_manifest.encode(mark))
    except OSError as error:
        raise folders.unwritable(archive, error) from error


def _write_description(folder: Path, document: bytes, configs: Mapping[str, bytes]) -> None:
    """Write the Session JSON of an open session as it is now beside its parts, and the configurations that it binds."""
    path = folder / names.SESSION
    archived_configs.write(folder, configs)
    if not path.exists() or path.read_bytes() != document:
        folders.write_durably(path, document)


def refresh_manifest(
    candidate: ArchiveCandidate, archive: Path, configs: Mapping[str, bytes] = MappingProxyType({})
) -> Manifest | None:
    """Write the newest Session JSON of a closed session beside files that are in the archive, and return its manifest.

    It names the files that parts have now: those of a part that was archived anew have other names. None: the archive
    does not have all of the session. `configs`: its configurations, by identifier.
    """
    folder = archive / candidate.folder
    stored = manifest.read_session(folder, candidate.identity)
    old = stored.whole
    if old is None:
        return None
    new = old.with_document(candidate.document, candidate.version, candidate.state.value)
    new = msgspec.structs.replace(
        new,
        configs=tuple(sorted({*old.configs, *configs})),
        files=tuple(file for part in stored.parts for file in part.files),
    )
    if new != old:
        try:
            archived_configs.write(folder, configs)
            folders.write_durably(folder / names.SESSION, candidate.document)
            folders.write_durably(folder / names.MANIFEST, new.encode())
        except OSError as error:
            raise folders.unwritable(archive, error) from error
    return new


def build_manifest(candidate: ArchiveCandidate, parts: Sequence[PartManifest], missing: Sequence[str] = ()) -> Manifest:
    """The manifest of a closed session from those of its parts."""
    rows, digests = archive_manifest.content(archive_manifest.total_content(parts))
    phrases = [*missing, *(phrase for part in parts for phrase in part.missing)]
    if parts and rows["samples"] >= candidate.samples:
        # Parts say what was missing when they were written: reports may have been ahead of entries.
        phrases = [phrase for phrase in phrases if phrase.startswith("entries before")]
    with_entries = [part for part in parts if part.entries]
    return Manifest(
        identity=candidate.identity,
        stream_session_id=candidate.stream_session_id,
        stream=candidate.stream,
        source=candidate.source,
        date=names.day(candidate.opened_ms),
        state=candidate.state.value,
        version=candidate.version,
        entries=sum(part.entries for part in parts),
        first_id=with_entries[0].first_id if with_entries else "",
        last_id=with_entries[-1].last_id if with_entries else "",
        rows=rows,
        content=digests,
        complete=not phrases,
        missing=tuple(dict.fromkeys(phrases)),
        session_sha256=hashlib.sha256(candidate.document).hexdigest(),
        files=tuple(file for part in parts for file in part.files),
        gaps=tuple(gap for part in parts for gap in part.gaps),
        parts=len(parts),
    ).with_checksum()
