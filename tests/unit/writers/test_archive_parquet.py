"""Rows in the archive's files: every bit, type and row, and tasks that spoil no other session."""

import math
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rta_supervisor.archive import verify
from rta_wire import content_digest
from rta_wire.archive import samples
from rta_wire.codec import encode, event_messages, layout
from rta_writers.archive import parquet
from rta_writers.archive import task as archive_task
from rta_writers.archive.rows import SessionLayout
from tests.support.archived_sessions import bursts, stream_entries, write

QUIET, OTHER_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF80000DEADBEEF)
)


def test_every_bit_of_a_double_is_in_the_file(tmp_path: Path) -> None:
    """NaNs with their bits, both zeros, the smallest and the largest; times of all 64 bits."""
    values = [0.0, -0.0, QUIET, OTHER_NAN, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    times = [-(2**63), -1, 0, 1, 2**63 - 1, 5, 6, 7, 8]
    result = write(tmp_path, 7, bursts(list(range(9)), times, values))
    [file] = [file for file in result.files if file.kind == "samples"]
    table = pq.read_table(tmp_path / "7" / file.name)
    order = np.argsort(table["channel"].to_numpy())
    assert table["value"].to_numpy()[order].tobytes() == np.array(values).tobytes()
    assert table["time"].to_numpy()[order].tolist() == times
    assert set(table["identity"].to_pylist()) == {"run"}
    assert table.schema.field("identity").type == pa.string()
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(9, result.samples.sum)


@pytest.mark.parametrize("kind", list(layout.SampleType))
def test_every_sample_type_keeps_its_digits(tmp_path: Path, kind: layout.SampleType) -> None:
    """The ends of each type: exact as a double, or with all digits beside it."""
    if kind.dtype.kind == "f":
        values = np.array([np.finfo(kind.dtype).max, -1.5], kind.dtype)
    else:
        values = np.array([np.iinfo(kind.dtype).max, np.iinfo(kind.dtype).min], kind.dtype)
    layouts = layout.Plan(default=layout.Layout(type=kind))
    batch = pa.record_batch({"channel": pa.array([1, 1]), "time": pa.array([1, 2]), "value": pa.array(values)})
    data = [burst.data for burst in encode.Encoder(layouts).long([batch])]
    result = write(tmp_path, 7, data, layouts)
    [file] = [file for file in result.files if file.kind == "samples"]
    table = pq.read_table(tmp_path / "7" / file.name).to_pylist()
    exact = [int(row["integer"]) if row["integer"] is not None else row["value"] for row in table]
    assert exact == values.tolist()
    assert (table[0]["integer"] is not None) == (kind in (layout.SampleType.INT64, layout.SampleType.UINT64))
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(2, result.samples.sum)
    [batch] = pq.read_table(tmp_path / "7" / file.name).to_batches()
    halves = [samples.columns(batch.slice(row_index, 1)).digest() for row_index in (0, 1)]
    assert halves[0].sum_of(halves[1]) == content_digest.Digest(2, result.samples.sum), "wherever a part begins"


def test_mixed_types_events_and_rows_are_all_there(tmp_path: Path) -> None:
    """Whole numbers beside doubles, row data as samples, events in a file of their own."""
    layouts = layout.Plan([(2, layout.Layout(type=layout.SampleType.UINT64, kind=layout.Kind.ROW))])
    encoder = encode.Encoder(layouts)
    batch = pa.record_batch({"channel": pa.array([1, 2]), "time": pa.array([1, 2]), "value": pa.array([3, 2**53 + 1])})
    events = [
        event_messages.event(3, 9, app_name="ECU", status_text="up", raw_data=[1.5, math.nan]),
        event_messages.event(-1, -5),
    ]
    data = [burst.data for burst in (*encoder.long([batch]), *encoder.events(events))]
    result = write(tmp_path, 7, data, layouts)
    files = {file.kind: tmp_path / "7" / file.name for file in result.files}
    rows = {(row["channel"], row["integer"] or row["value"]) for row in pq.read_table(files["samples"]).to_pylist()}
    assert rows == {(1, 3.0), (2, 2**53 + 1)}
    assert verify.digest_file(files["samples"], "samples") == content_digest.Digest(2, result.samples.sum)
    assert verify.digest_file(files["events"], "events") == content_digest.Digest(2, result.events.sum)
    assert pq.read_table(files["events"])["status_text"].to_pylist() == ["up", ""]
    assert files["samples"].name.startswith("part-")
    assert files["events"].name.startswith("events-")


def test_a_session_that_can_not_be_decoded_spoils_no_other(tmp_path: Path) -> None:
    """A session with a broken entry has a result that names the entry, and leaves no file."""
    sessions = {number: SessionLayout(f"run-{number}", layout.Plan()) for number in (7, 8)}
    good = bursts([1], [1], [1.0])
    pages = [stream_entries(7, [*good, b"junk", good[1]]), stream_entries(8, good)]
    outputs = archive_task.total(archive_task.ArchiveTask(str(tmp_path), sessions).write(pages))
    assert "entry 12-0" in outputs[7].problem
    assert outputs[8].digests["samples"].rows == 1
    assert not list((tmp_path / "7").glob("*")) if (tmp_path / "7").exists() else True


def test_samples_are_sorted_by_channel_in_chunks_of_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk is sorted by channel and written in row groups whose statistics say what they hold."""
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 200)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 50)
    monkeypatch.setattr(archive_task, "ENTRIES_PER_DECODE", 1)
    data = [
        burst for n in range(4) for burst in bursts([1, 2] * 50, [n * 100 + row for row in range(100)], [0.5] * 100)[1:]
    ]
    result = write(tmp_path, 7, data)
    [file] = [file for file in result.files if file.kind == "samples"]
    metadata = pq.ParquetFile(tmp_path / "7" / file.name).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    channels = [(group.column(2).statistics.min, group.column(2).statistics.max) for group in groups]
    assert channels == [(1, 1), (1, 1), (2, 2), (2, 2)] * 2
    assert [group.column(3).statistics.min for group in groups] == [0, 100, 1, 101, 200, 300, 201, 301]
    assert (file.start_ns, file.end_ns) == (0, 399)
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(400, result.samples.sum)


def test_a_task_gathers_no_more_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound it writes what it has and goes on with other files, which follow each other by entry ids."""
    monkeypatch.setattr(archive_task, "GATHERED_BYTES", 1)
    sessions = {number: SessionLayout("run", layout.Plan()) for number in (7, 8)}
    pages = [[entry] for entry in stream_entries(7, bursts([1], [1], [1.0]) + bursts([1], [2], [2.0])[1:])]
    outputs = list(archive_task.ArchiveTask(str(tmp_path), sessions).write(pages))
    assert [(output.first_id, output.last_id) for _, output in outputs] == [
        ("10-0", "10-0"),
        ("11-0", "11-0"),
        ("12-0", "12-0"),
    ]
    together = archive_task.total(outputs)[7]
    assert (together.entries.rows, together.digests["samples"].rows, together.begins_with_json) == (3, 2, True)


def test_bytes_can_be_split(tmp_path: Path) -> None:
    """Option `byte_stream_split` changes the encoding of the values and not the rows."""
    rows = list(range(1000))
    data = bursts([1] * 1000, rows, [n * 0.25 for n in rows])
    for split in (False, True):
        folder = tmp_path / str(split)
        result = write(folder, 7, data, options=parquet.ParquetOptions(byte_stream_split=split))
        [file] = [file for file in result.files if file.kind == "samples"]
        column = pq.ParquetFile(folder / "7" / file.name).metadata.row_group(0).column(4)
        assert ("BYTE_STREAM_SPLIT" in column.encodings) == split
        assert pq.read_table(folder / "7" / file.name)["value"].to_pylist() == [n * 0.25 for n in rows]
