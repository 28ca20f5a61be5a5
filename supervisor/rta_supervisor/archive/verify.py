"""Reads Parquet files of a session back and digests their rows, independently of the code that wrote them."""

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
    """What was read of one file."""

    content: content_digest.Digest
    size_bytes: int
    sha256: str


def verify_file(path: Path, kind: str) -> VerifiedFile:
    return VerifiedFile(digest_file(path, kind), path.stat().st_size, sha256(path))


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
