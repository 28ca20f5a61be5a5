"""Reads the files of archived sessions: finds the folder of a session, and gives rows of its parts as Arrow batches.

Which files and row groups are needed, and what rows mean, is decided in `rta_wire.archive`. Does not import Spark.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import errors
from rta_wire.archive import manifest, messages, names, samples, schema, selection
from rta_wire.archive.folder import Segment, SessionArchive
from rta_wire.archive.manifest import ManifestFile, PartManifest
from rta_wire.archive.samples import ArchivedSamples
from rta_wire.channels import config_json, model

log: Final = logging.getLogger("rta_writers")

BATCH_ROWS: Final = 262_144
LISTS_KEPT: Final = 16
"""Lists of channels that a process has in memory."""
SESSIONS_KEPT: Final = 16
KEPT_AFTER_NS: Final = 2 * 10**9
"""How long a folder has to be as it is before what was read of it is kept: clocks of file systems are coarse."""

RANGE_ROWS: Final = 4 << 20
"""Rows of files that one task reads, about: small parts share a task."""


FindSession = Callable[[str, str, int | None], "StoredSession | None"]
"""Finds a session by the folder of the archive, its identity, and its id where that is known."""


class StoredSession(msgspec.Struct, frozen=True):
    """The folder of an archived session, and what it holds."""

    folder: str
    archive: SessionArchive

    @property
    def first_part(self) -> PartManifest:
        return self.archive.parts[0]


class FileRange(msgspec.Struct, frozen=True):
    """One file of a part, and which of its entries are wanted: those after one id, up to and with another."""

    name: str
    rows: int
    after: str = ""
    until: str = ""
    """Both empty: all of them."""


class ArchiveRange(msgspec.Struct, frozen=True):
    """Files of a session that one task reads."""

    folder: str
    identity: str
    stream_session_id: int
    kind: str
    files: tuple[FileRange, ...]

    @property
    def identities(self) -> dict[int, str]:
        """The name of the session by its number."""
        return {self.stream_session_id: self.identity}


def find_session(
    archive: str, identity: str, stream_session_id: int | None = None, source: str | None = None
) -> StoredSession | None:
    """A session in an archive, the newest of that identity where no id is given; None where it has nothing of it.

    Raises `ArchiveDamaged` where no id is given, so that it may be nowhere else, and no manifest of it can be read.
    """
    pattern = names.session_name(identity, "*" if stream_session_id is None else stream_session_id)
    found: dict[int, StoredSession] = {}
    problem = ""
    for folder in Path(archive).glob(f"date=*/source={'*' if source is None else source}/{_escaped(pattern)}"):
        if not folder.name.removeprefix(names.session_name(identity, "")).isdigit():
            # Of another session, whose identity begins like this one.
            continue
        stored = read_folder(folder, identity)
        if stored.archive.parts and stored.first_part.identity == identity:
            found[stored.first_part.stream_session_id] = stored
        elif not stored.archive.parts:
            problem = problem or stored.archive.lost_end
    if problem and not found and stream_session_id is None:
        raise errors.ArchiveDamaged(problem, identity=identity)
    return found[max(found)] if found else None


def _escaped(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def read_folder(folder: Path, identity: str) -> StoredSession:
    """The manifests in a folder, with the parts named whose files don't have the sizes that they should have."""
    manifests = {path.name: path.read_bytes() for path in folder.glob("*.json") if names.is_manifest(path.name)}
    archive = SessionArchive.parse(identity, manifests, str(folder))
    for part in archive.parts:
        for file in part.files:
            path = folder / file.name
            if _size(path) != file.size_bytes:
                error = manifest.damaged(identity, str(path), "it is gone or does not have its size")
                archive = archive.with_damaged(part.number, str(error))
    return StoredSession(str(folder), archive)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def find_kept_session(archive: str, identity: str, stream_session_id: int | None = None) -> StoredSession | None:
    """The same as `find_session`, for a query that asks at each trigger: a folder that was found is read again where
    something was put into it or removed. A file that is cut off in place is found when it is read."""
    if stream_session_id is None:
        return find_session(archive, identity)  # tomorrow there may be a newer one
    key = (archive, identity, stream_session_id)
    kept = _kept_sessions.get(key)
    if kept is not None and kept.changed_ns == _changed_ns(kept.stored.folder):
        return kept.stored
    _kept_sessions.pop(key, None)
    asked_ns = time.time_ns()
    stored = find_session(*key)
    changed_ns = None if stored is None else _changed_ns(stored.folder)
    if stored is not None and changed_ns is not None and changed_ns < asked_ns - KEPT_AFTER_NS:
        while len(_kept_sessions) >= SESSIONS_KEPT:
            del _kept_sessions[next(iter(_kept_sessions))]
        _kept_sessions[key] = _KeptSession(stored, changed_ns)
    return stored


class _KeptSession(NamedTuple):
    stored: StoredSession
    changed_ns: int


_kept_sessions: Final[dict[tuple[str, str, int], _KeptSession]] = {}


def _changed_ns(folder: str) -> int | None:
    """When something was put into a folder or removed, None where there is none any more."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return None


def read_document(stored: StoredSession) -> bytes | None:
    """The Session JSON of an archived session as it was with its last part, None where there is none."""
    try:
        return (Path(stored.folder) / names.SESSION).read_bytes()
    except FileNotFoundError:
        return None


def channel_list(folder: str, identifier: str) -> model.ChannelList | None:
    """The channels of a configuration that was archived with a session, None where the folder does not have it."""
    path = Path(folder) / names.config_file(identifier)
    return _load_channels(path, identifier) if folder and path.exists() else None


@functools.lru_cache(maxsize=LISTS_KEPT)
def _load_channels(path: Path, identifier: str) -> model.ChannelList:
    data = path.read_bytes()
    if config_json.identifier(data) != identifier:
        raise errors.BadChannels(where=str(path), reason="its JSON is not what was published")
    return config_json.decode(data)


def plan_ranges(
    stored: StoredSession,
    kind: str,
    segments: list[Segment],
    row_filter: selection.SampleFilter,
    counters: selection.ReadCounters,
) -> list[ArchiveRange]:
    """What tasks read of some segments, all of which have parts. Files outside the wanted times are skipped."""
    chosen: list[FileRange] = []
    for segment in segments:
        assert segment.part is not None
        all_files = segment.part.files_of(kind)
        files = [file for file in all_files if file.overlaps(row_filter.start_ns, row_filter.end_ns)]
        counters.files += len(files)
        counters.files_skipped += len(all_files) - len(files)
        counters.parts += bool(files)
        counters.parts_skipped += not files
        chosen += [_file_range(segment, file) for file in files]
    grouped: list[list[FileRange]] = []
    rows = RANGE_ROWS
    for file in chosen:
        if rows >= RANGE_ROWS:
            grouped.append([])
            rows = 0
        grouped[-1].append(file)
        rows += file.rows
    session = stored.first_part
    return [
        ArchiveRange(stored.folder, session.identity, session.stream_session_id, kind, tuple(files))
        for files in grouped
    ]


def _file_range(segment: Segment, file: ManifestFile) -> FileRange:
    if segment.is_whole_part:
        return FileRange(file.name, file.rows)
    return FileRange(file.name, file.rows, segment.after, segment.until)


def can_cut(part: PartManifest) -> bool:
    """Whether some entries of a part can be told from others: older files don't say where rows came from."""
    return part.format > manifest.FORMAT_WITHOUT_PARTS


def iter_samples(
    archive_range: ArchiveRange, row_filter: selection.SampleFilter, counters: selection.ReadCounters
) -> Iterator[ArchivedSamples]:
    """Wanted samples of a range. Raises `ArchiveDamaged` where a file can't be read or a page has a wrong checksum."""
    for file in archive_range.files:
        path = Path(archive_range.folder) / file.name
        try:
            with _open(path) as parquet:
                if file.until:
                    yield _cut_samples(path, parquet, file).where(row_filter)
                    continue
                groups = selection.row_groups(parquet.metadata, row_filter, counters)
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(schema.READ_COLUMNS)):
                    yield samples.columns(batch).where(row_filter)
        except (OSError, pa.ArrowException) as error:
            raise _damaged(archive_range, path, error) from error


def _cut_samples(path: Path, parquet: pq.ParquetFile, file: FileRange) -> ArchivedSamples:
    """The samples of some entries of a file, which the table of messages tells from the others."""
    with _open(path.with_name(names.messages_of(path.name))) as table_file:
        table = messages.MessageColumns.from_table(table_file.read())
    [batch] = parquet.read(columns=list(schema.READ_COLUMNS)).combine_chunks().to_batches()
    wanted: list[Any] = []
    first = 0
    for number in np.unique(table.chunks).tolist():
        chunk = table.chunk(number)
        of_rows = chunk.rows()
        wanted.append(first + np.flatnonzero(chunk.within(file.after, file.until)[of_rows]))
        first += len(of_rows)
    return samples.columns(batch).take(np.concatenate(wanted))


def iter_events(archive_range: ArchiveRange) -> Iterator[pa.RecordBatch]:
    """Events of a range, with the columns that files have."""
    for file in archive_range.files:
        path = Path(archive_range.folder) / file.name
        try:
            with _open(path) as parquet:
                for batch in parquet.iter_batches(BATCH_ROWS):
                    yield batch if not file.until else _cut_events(batch, file)
        except (OSError, pa.ArrowException) as error:
            raise _damaged(archive_range, path, error) from error


def _cut_events(batch: pa.RecordBatch, file: FileRange) -> pa.RecordBatch:
    ms, seq = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("entry_ms", "entry_seq"))
    return batch.filter(pa.array(messages.ids_within(ms, seq, file.after, file.until)))


def _open(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, page_checksum_verification=True)


def _damaged(archive_range: ArchiveRange, path: Path, error: Exception) -> errors.ArchiveDamaged:
    return manifest.damaged(archive_range.identity, str(path), str(error).splitlines()[0])


def log_counters(counters: selection.ReadCounters, what: str) -> None:
    """Say in the log what was read of an archive, and what was skipped."""
    log.info(
        "archive of %s: %d of %d parts, %d of %d files, %d of %d row groups read",
        what,
        *(counters.parts, counters.parts + counters.parts_skipped),
        *(counters.files, counters.files + counters.files_skipped),
        *(counters.row_groups, counters.row_groups + counters.row_groups_skipped),
    )
