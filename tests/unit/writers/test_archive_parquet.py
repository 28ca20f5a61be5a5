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
from rta_wire.codec import encode, event_messages, layout
from rta_writers.archive import parquet, recount
from rta_writers.archive.rows import SessionLayout
from tests.support.archived_sessions import bursts, raw_entries, write

QUIET, OTHER_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF80000DEADBEEF)
)


def test_every_bit_of_a_double_is_in_the_file(tmp_path: Path) -> None:
    """NaNs with their bits, both zeros, the smallest and the largest; times of all 64 bits."""
    values = [0.0, -0.0, QUIET, OTHER_NAN, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]
    times = [-(2**63), -1, 0, 1, 2**63 - 1, 5, 6, 7, 8]
    result = write(tmp_path, 7, bursts(list(range(9)), times, values))
    [file] = result.files
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
    [file] = result.files
    table = pq.read_table(tmp_path / "7" / file.name).to_pylist()
    exact = [int(row["integer"]) if row["integer"] is not None else row["value"] for row in table]
    assert exact == values.tolist()
    assert (table[0]["integer"] is not None) == (kind in (layout.SampleType.INT64, layout.SampleType.UINT64))
    assert verify.digest_file(tmp_path / "7" / file.name, "samples") == content_digest.Digest(2, result.samples.sum)
    [batch] = pq.read_table(tmp_path / "7" / file.name).to_batches()
    halves = [verify._samples(batch.slice(row_index, 1)) for row_index in (0, 1)]
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
    batches = [*raw_entries(7, [*good, b"junk", good[1]]), *raw_entries(8, good)]
    [results] = parquet.ParquetTask(str(tmp_path), sessions)(iter(batches))
    by_session = {row["stream_session_id"]: row for row in results.to_pylist()}
    assert by_session[7]["kind"] == parquet.BROKEN
    assert "entry 12-0" in by_session[7]["file"]
    assert by_session[8]["rows"] == 1
    assert not list((tmp_path / "7").glob("*")) if (tmp_path / "7").exists() else True
    assert "entry 12-0" in recount.recount_sessions(batches, sessions)[7].problem


def test_a_task_holds_a_group_and_rolls_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written by the group; a file ends at its bound and the next one begins."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(parquet, "FILE_ROWS", 300)
    monkeypatch.setattr(parquet, "ENTRIES_PER_DECODE", 1)
    data = [
        burst for n in range(10) for burst in bursts([1] * 100, list(range(n * 100, n * 100 + 100)), [0.5] * 100)[1:]
    ]
    result = write(tmp_path, 7, data)
    assert [file.rows for file in result.files] == [300, 300, 300, 100]
    assert pq.ParquetFile(tmp_path / "7" / result.files[0].name).num_row_groups == 3
    digest = content_digest.Digest()
    for file in result.files:
        digest = digest.sum_of(verify.digest_file(tmp_path / "7" / file.name, "samples"))
    assert digest == content_digest.Digest(1000, result.samples.sum)


def test_bytes_can_be_split(tmp_path: Path) -> None:
    """Option `byte_stream_split` changes the encoding of the values and not the rows."""
    sessions = {7: SessionLayout("run", layout.Plan())}
    rows = list(range(1000))
    data = bursts([1] * 1000, rows, [n * 0.25 for n in rows])
    for split in (False, True):
        options = parquet.ParquetOptions(byte_stream_split=split)
        [results] = parquet.ParquetTask(str(tmp_path / str(split)), sessions, options)(raw_entries(7, data))
        path = tmp_path / str(split) / "7" / results["file"][0].as_py()
        column = pq.ParquetFile(path).metadata.row_group(0).column(4)
        assert ("BYTE_STREAM_SPLIT" in column.encodings) == split
        assert pq.read_table(path)["value"].to_pylist() == [n * 0.25 for n in rows]
