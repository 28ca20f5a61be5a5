"""Verifies the files of a session: reads them back, in another process than the one that wrote them, and compares their
rows with those that were decoded, and the entries that were decoded with those of the stream.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import archive_spec, content_digest, errors
from rta_wire.archive import messages, samples, schema

BATCH_ROWS: Final = 262_144
_EVENT_COLUMNS: Final = ("event_definition_id", "time", "app_name", "status_text", "raw_data")


class FileContent(msgspec.Struct, frozen=True):
    """What was read back of one file. It is not compared with the stream yet."""

    digest: content_digest.Digest
    """Of all its rows."""
    size_bytes: int
    sha256: str


FileContents = dict[str, FileContent]
"""Files that were read back, by name. Names of files are unique in a run."""


def read_files(stream_session_id: int, files: Iterable[archive_spec.ArchiveFile], staging: Path) -> FileContents:
    """Read the files of a session back."""
    folder = staging / str(stream_session_id)
    return {file.name: read_file(folder / file.name, file.kind) for file in files}


def read_file(path: Path, kind: str) -> FileContent:
    """Read one file back. `kind`: samples, events or messages."""
    return FileContent(digest_file(path, kind), path.stat().st_size, sha256(path))


def check_same_as_stream(identity: str, result: archive_spec.SessionResult, contents: FileContents) -> None:
    """Compare the files of a session with its stream.

    Two comparisons: the entries that were decoded are those that the stream holds, by a digest of their stored bytes;
    and the rows that were read back from the files are those that were decoded. Entries that were trimmed in between
    are in the files all the same: a stream that is trimmed all the time would never be archived otherwise. Raises
    `ArchiveDiffers` where something else differs.
    """
    if _digest(result.read) != _digest(result.counted).sum_of(_digest(result.trimmed)):
        trimmed = f", {result.trimmed.rows} were trimmed meanwhile" if result.trimmed.rows else ""
        raise errors.ArchiveDiffers(
            identity=identity,
            reason=f"they were made of {result.read.rows} entries, and the stream has {result.counted.rows} of them "
            f"now, or others{trimmed}",
        )
    in_files = {kind: content_digest.Digest() for kind in ("samples", "events", "messages")}
    for file in result.files:
        in_files[file.kind] = in_files[file.kind].sum_of(contents[file.name].digest)
    for kind, digest in stream_digests(result).items():
        if in_files[kind] != digest:
            counts = f"{in_files[kind].rows} {kind} in the files, {digest.rows} in the stream"
            reason = counts if in_files[kind].rows != digest.rows else f"{counts}, but not the same"
            raise errors.ArchiveDiffers(identity=identity, reason=reason)


def stream_digests(result: archive_spec.SessionResult) -> dict[str, content_digest.Digest]:
    """Digests of the decoded rows of a session, by kind."""
    sums = {"samples": result.samples, "events": result.events, "messages": result.messages}
    return {kind: _digest(row_sum) for kind, row_sum in sums.items()}


def _digest(row_sum: archive_spec.RowSum) -> content_digest.Digest:
    return content_digest.Digest(row_sum.rows, row_sum.sum)


def digest_file(path: Path, kind: str) -> content_digest.Digest:
    """The digest of all rows of a file. `kind`: samples, events or messages."""
    digest = content_digest.Digest()
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        if kind == "messages":
            return messages.MessageColumns.from_table(file.read()).digest()
        columns = list(schema.READ_COLUMNS) if kind == "samples" else list(_EVENT_COLUMNS)
        for batch in file.iter_batches(BATCH_ROWS, columns=columns):
            digest = digest.sum_of(samples.columns(batch).digest() if kind == "samples" else _events(batch))
    return digest


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _events(batch: pa.RecordBatch) -> content_digest.Digest:
    return content_digest.of_events(zip(*(batch.column(name).to_pylist() for name in _EVENT_COLUMNS), strict=True))
