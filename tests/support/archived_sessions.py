"""Sessions as files: entries of a stream, and the files that tasks of the archive make of them."""

from pathlib import Path

import numpy as np

from rta_wire import archive_spec
from rta_wire.codec import encode, layout
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import job as archive_job
from rta_writers.archive import parquet
from rta_writers.archive import task as archive_task
from rta_writers.archive.rows import SessionLayout


def stream_entries(number: int, bursts: list[bytes]) -> list[StreamEntry]:
    """Entries of a session with the ids 10-0, 11-0 ..."""
    return [StreamEntry(f"{10 + index}-0", number, data) for index, data in enumerate(bursts)]


def bursts(channels: list[int], times: list[int], values: list[float]) -> list[bytes]:
    """Session JSON, then samples."""
    encoded = encode.encode_doubles(
        np.array(channels, np.uint32), np.array(times, np.int64), np.array(values, np.float64)
    )
    return [encode.session_json(b"{}"), *(burst.data for burst in encoded)]


def write(
    folder: Path,
    number: int,
    data: list[bytes],
    layouts: layout.Plan | None = None,
    options: parquet.ParquetOptions | None = None,
) -> archive_spec.SessionResult:
    """Write the files of one session to a folder, as a pass of the archive job does."""
    sessions = {number: SessionLayout("run", layouts or layout.Plan())}
    task = archive_task.ArchiveTask(str(folder), sessions, options or parquet.ParquetOptions())
    pages = [stream_entries(number, data)]
    written = archive_task.total(task.write(pages))[number]
    counted = archive_task.total(archive_task.count_entries(pages, sessions))[number]
    return archive_job.session_result(number, written, counted)
