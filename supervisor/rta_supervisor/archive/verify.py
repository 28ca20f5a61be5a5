"""Reads Parquet files of a session back and counts what is in them. Knows nothing of how they were written."""

import hashlib
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import content_digest
from rta_wire.codec import columns

BATCH_ROWS: Final = 262_144


class VerifiedFile(msgspec.Struct, frozen=True):
    """A file as it is."""

    content: content_digest.Digest
    size_bytes: int
    sha256: str


def verify_file(path: Path, kind: str) -> VerifiedFile:
    return VerifiedFile(digest_file(path, kind), path.stat().st_size, sha256(path))


def digest_file(path: Path, kind: str) -> content_digest.Digest:
    """What one file holds."""
    found = content_digest.Digest()
    with pq.ParquetFile(path) as file:
        wanted = [name for name in file.schema_arrow.names if name not in ("identity", "stream_session_id")]
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
            found = found.sum_of(_samples(batch) if kind == "samples" else _events(batch))
    return found


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _samples(batch: pa.RecordBatch) -> content_digest.Digest:
    channels, times, values = (columns.column(batch.column(name), name).values for name in ("channel", "time", "value"))
    integer = batch.column("integer")
    if integer.null_count == len(integer):
        return content_digest.of_samples(channels, times, values)
    if integer.null_count:
        has = integer.is_valid().to_numpy(zero_copy_only=False)
        rest = content_digest.of_samples(channels[~has], times[~has], values[~has])
        return rest.sum_of(
            content_digest.of_samples(channels[has], times[has], values[has], _whole(integer.drop_null()))
        )
    return content_digest.of_samples(channels, times, values, _whole(integer))


def _whole(integer: Any) -> content_digest.Int64Values:
    """Decimals of 128 bits are two words each, the lower one first."""
    words = np.frombuffer(integer.buffers()[1], np.int64)[2 * integer.offset :][: 2 * len(integer)].reshape(-1, 2)
    return content_digest.Int64Values(np.ascontiguousarray(words[:, 0]).view(np.uint64), words[:, 1] < 0)


def _events(batch: pa.RecordBatch) -> content_digest.Digest:
    names = ("event_definition_id", "time", "app_name", "status_text", "raw_data")
    return content_digest.of_events(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
