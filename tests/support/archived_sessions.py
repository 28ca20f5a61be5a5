"""Sessions as files: entries of a stream, and what the archive's tasks make of them."""

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
    ids = [f"{10 + place}-0" for place in range(len(bursts))]
    schema = read_batches.schema(
        options_read.ReadOptions(redis_url="", stream="rig", form=options_read.ReadForm.ENTRIES)
    )
    columns = [pa.array([None] * len(ids), pa.string()), pa.array([number] * len(ids)), pa.array(ids), pa.array(bursts)]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def bursts(channels: list[int], times: list[int], values: list[float]) -> list[bytes]:
    made = encode.encode_doubles(np.array(channels, np.uint32), np.array(times, np.int64), np.array(values, np.float64))
    return [encode.session_json(b"{}"), *(one.data for one in made)]


def write(
    folder: Path, number: int, data: list[bytes], layouts: layout.Plan | None = None
) -> archive_spec.SessionResult:
    """What a pass makes of one session."""
    wanted = {number: SessionLayout("run", layouts or layout.Plan())}
    [told] = parquet.ParquetTask(str(folder), wanted)(raw_entries(number, data))
    rows = told.to_pylist()
    found = recount.recount_sessions(raw_entries(number, data), wanted)[number]
    return archive_spec.SessionResult(
        number,
        *(found.entries, found.size_bytes, found.first_id, found.last_id, found.begins_with_json),
        samples=archive_spec.RowSum(found.samples.rows, found.samples.sum),
        events=archive_spec.RowSum(found.events.rows, found.events.sum),
        files=tuple(
            archive_spec.ArchiveFile(row["kind"], row["file"], row["rows"]) for row in rows if row["kind"] != "broken"
        ),
        problem="".join(row["file"] for row in rows if row["kind"] == "broken"),
    )
