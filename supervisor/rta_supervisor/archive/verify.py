"""Verifies the files of a session: reads them back, independently of the code that wrote them, and compares their rows
with those that the stream held.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import archive_spec, content_digest, errors
from rta_wire.codec import columns

BATCH_ROWS: Final = 262_144


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
    """Read one file back. `kind`: samples or events."""
    return FileContent(digest_file(path, kind), path.stat().st_size, sha256(path))


def check_same_as_stream(identity: str, result: archive_spec.SessionResult, contents: FileContents) -> None:
    """Compare the files of a session with what Spark counted in its stream.

    Raises `ArchiveDiffers` where the files do not hold what the stream held.
    """
    in_files = {"samples": content_digest.Digest(), "events": content_digest.Digest()}
    for file in result.files:
        in_files[file.kind] = in_files[file.kind].sum_of(contents[file.name].digest)
    in_stream = {"samples": stream_digest(result.samples), "events": stream_digest(result.events)}
    for kind, digest in in_stream.items():
        if in_files[kind] != digest:
            counts = f"{in_files[kind].rows} {kind} in the files, {digest.rows} in the stream"
            reason = counts if in_files[kind].rows != digest.rows else f"{counts}, but not the same"
            raise errors.ArchiveDiffers(identity=identity, reason=reason)


def stream_digest(row_sum: archive_spec.RowSum) -> content_digest.Digest:
    """The digest of rows of one kind that the stream of a session held."""
    return content_digest.Digest(row_sum.rows, row_sum.sum)


def digest_file(path: Path, kind: str) -> content_digest.Digest:
    """The digest of all rows of a file. `kind`: samples or events."""
    digest = content_digest.Digest()
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in ("identity", "stream_session_id")]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            digest = digest.sum_of(_samples(batch) if kind == "samples" else _events(batch))
    return digest


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _samples(batch: pa.RecordBatch) -> content_digest.Digest:
    channels, times, values = (columns.column(batch.column(name), name).values for name in ("channel", "time", "value"))
    integers = batch.column("integer")
    if integers.null_count == len(integers):
        return content_digest.of_samples(channels, times, values)
    if integers.null_count:
        valid = integers.is_valid().to_numpy(zero_copy_only=False)
        doubles = content_digest.of_samples(channels[~valid], times[~valid], values[~valid])
        return doubles.sum_of(
            content_digest.of_samples(channels[valid], times[valid], values[valid], _int64_values(integers.drop_null()))
        )
    return content_digest.of_samples(channels, times, values, _int64_values(integers))


def _int64_values(integers: Any) -> content_digest.Int64Values:
    """Whole numbers from decimals of 128 bits, which are two words of 64 bits each, the lower one first."""
    words = np.frombuffer(integers.buffers()[1], np.int64)[2 * integers.offset :][: 2 * len(integers)].reshape(-1, 2)
    return content_digest.Int64Values(np.ascontiguousarray(words[:, 0]).view(np.uint64), words[:, 1] < 0)


def _events(batch: pa.RecordBatch) -> content_digest.Digest:
    names = ("event_definition_id", "time", "app_name", "status_text", "raw_data")
    return content_digest.of_events(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
