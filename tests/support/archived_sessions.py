"""Sessions as files: entries of a stream, and the files that tasks of the archive make of them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from rta_wire import archive_spec
from rta_wire.codec import encode, layout
from rta_writers.archive import parquet, recount
from rta_writers.archive.rows import SessionLayout
from rta_writers.options import read as options_read
from rta_writers.read import batches as read_batches


def raw_entries(number: int, bursts: list[bytes]) -> Iterator[pa.RecordBatch]:
    """Entries of a session as the Spark source gives them, with the ids 10-0, 11-0 ..."""
    ids = [f"{10 + index}-0" for index in range(len(bursts))]
    schema = read_batches.schema(
        options_read.ReadOptions(redis_url="", stream="rig", form=options_read.ReadForm.ENTRIES)
    )
    columns = [pa.array([None] * len(ids), pa.string()), pa.array([number] * len(ids)), pa.array(ids), pa.array(bursts)]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def bursts(channels: list[int], times: list[int], values: list[float]) -> list[bytes]:
    """Session JSON, then samples."""
    encoded = encode.encode_doubles(
        np.array(channels, np.uint32), np.array(times, np.int64), np.array(values, np.float64)
    )
    return [encode.session_json(b"{}"), *(burst.data for burst in encoded)]


def write(
    folder: Path, number: int, data: list[bytes], layouts: layout.Plan | None = None
) -> archive_spec.SessionResult:
    """Write the files of one session to a folder, as a pass of the archive job does."""
    session_layouts = {number: SessionLayout("run", layouts or layout.Plan())}
    [written] = parquet.ParquetTask(str(folder), session_layouts)(raw_entries(number, data))
    rows = written.to_pylist()
    counted = recount.recount_sessions(raw_entries(number, data), session_layouts)[number]
    return archive_spec.SessionResult(
        number,
        *(counted.entries, counted.size_bytes, counted.first_id, counted.last_id, counted.begins_with_json),
        samples=archive_spec.RowSum(counted.samples.rows, counted.samples.sum),
        events=archive_spec.RowSum(counted.events.rows, counted.events.sum),
        files=tuple(
            archive_spec.ArchiveFile(row["kind"], row["file"], row["rows"]) for row in rows if row["kind"] != "broken"
        ),
        problem="".join(row["file"] for row in rows if row["kind"] == "broken"),
    )
