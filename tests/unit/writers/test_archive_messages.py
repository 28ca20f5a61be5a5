"""What comes back of the archive encodes to the messages that the stream had."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_wire.archive import messages, names, samples, schema
from rta_wire.codec import burst, layout
from rta_wire.pb import data_pb2, stream_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import parquet
from rta_writers.archive import task as archive_task
from rta_writers.archive.rows import SessionLayout

TYPES = list(layout.SampleType)
LAYOUTS = layout.Plan([(channel, layout.Layout(type=kind)) for channel, kind in enumerate(TYPES)])
TIMES = st.integers(-(2**40), 2**62)
STEPS = st.one_of(st.integers(1, 2**30), st.integers(-(2**20), -1))


def values_of(channel: int, count: int) -> st.SearchStrategy[bytes]:
    """Bytes of samples: of floats also any bits of a NaN, which hypothesis does not make by itself."""
    dtype = LAYOUTS.layout(channel).type.dtype
    size = dtype.itemsize
    numbers = st.binary(min_size=size, max_size=size)
    if dtype.kind == "f":
        exponent = 0x7FF << 52 if size == 8 else 0xFF << 23
        nan = numbers.map(lambda raw: (int.from_bytes(raw, "little") | exponent).to_bytes(size, "little"))
        finite = st.floats(width=64 if size == 8 else 32).map(lambda found: np.array(found, dtype).tobytes())
        numbers = st.one_of(finite, nan)
    return st.lists(numbers, min_size=count, max_size=count).map(b"".join)


@st.composite
def timestamped(draw: st.DrawFn) -> stream_pb2.StreamData:
    channel, count = draw(st.integers(0, 12)), draw(st.integers(0, 5))
    deltas = [0, *draw(st.lists(st.integers(-50, 50), min_size=count - 1, max_size=count - 1))] if count else []
    return stream_pb2.StreamData(
        timestamped_data=data_pb2.TimestampedData(
            channel_id=channel,
            start_timestamp=draw(TIMES),
            timestamp_deltas_scale=draw(STEPS),
            timestamp_deltas=deltas,
            buffer=draw(values_of(channel, count)),
        )
    )


@st.composite
def periodic(draw: st.DrawFn) -> stream_pb2.StreamData:
    channel, count = draw(st.integers(0, 12)), draw(st.integers(0, 5))
    return stream_pb2.StreamData(
        periodic_data=data_pb2.PeriodicData(
            channel_id=channel,
            start_timestamp=draw(TIMES),
            interval=draw(STEPS),
            samples=count,
            buffer=draw(values_of(channel, count)),
        )
    )


@st.composite
def row(draw: st.DrawFn) -> stream_pb2.StreamData:
    channels = draw(st.lists(st.integers(0, 12), max_size=4))
    buffer = b"".join(draw(values_of(channel, 1)) for channel in channels)
    return stream_pb2.StreamData(row_data=data_pb2.RowData(channel_ids=channels, timestamp=draw(TIMES), buffer=buffer))


BURSTS = st.lists(st.lists(st.one_of(timestamped(), periodic(), row()), min_size=1, max_size=6), min_size=1, max_size=6)


def rebuilt(folder: Path, files: dict[str, str]) -> list[tuple[str, int, stream_pb2.StreamData]]:
    """All messages, from the files alone."""
    if "messages" not in files:
        return []
    table = messages.MessageColumns.from_table(pq.read_table(folder / files["messages"]))
    rows = (
        samples.columns(
            pq.read_table(folder / files["samples"], columns=list(schema.READ_COLUMNS)).combine_chunks().to_batches()[0]
        )
        if "samples" in files
        else samples.ArchivedSamples(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    )
    found = []
    first = 0
    for number in np.unique(table.chunks).tolist():
        chunk = table.chunk(number)
        count = int(chunk.samples.sum())
        found += list(messages.rebuild(chunk, rows.take(np.arange(first, first + count))))
        first += count
    assert first == len(rows.times_ns)
    return found


@settings(max_examples=60, deadline=None)
@given(BURSTS, st.sampled_from([1, 7, 1 << 20]), st.sampled_from([3, 1 << 17]))
def test_messages_come_back_as_the_stream_had_them(
    bursts: list[list[stream_pb2.StreamData]], chunk_rows: int, group_rows: int
) -> None:
    """Kinds, intervals, types, rows with their channels, empty messages, however samples are divided in the file."""
    entries = [
        StreamEntry(f"{10 + index}-3", 7, burst.compress(stream_pb2.StreamDataBurst(data=items).SerializeToString()))
        for index, items in enumerate(bursts)
    ]
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(parquet, "CHUNK_ROWS", chunk_rows)
        patch.setattr(parquet, "ROW_GROUP_ROWS", group_rows)
        patch.setattr(archive_task, "ENTRIES_PER_DECODE", 2)
        task = archive_task.ArchiveTask(name, {7: SessionLayout("run", LAYOUTS)})
        [(_, output)] = task.write([entries])
        assert output.problem == ""
        files = {file.kind: file.name for file in output.files}
        if "samples" in files:
            assert names.messages_of(files["samples"]) == files["messages"]
        found = rebuilt(Path(name) / "7", files)
        if "messages" in files:
            table = messages.MessageColumns.from_table(pq.read_table(Path(name) / "7" / files["messages"]))
            assert table.digest() == output.digests["messages"]
    expected = [
        (entry.id, index, item)
        for entry, items in zip(entries, bursts, strict=True)
        for index, item in enumerate(items)
    ]
    assert [(entry, index) for entry, index, _ in found] == [(entry, index) for entry, index, _ in expected]
    for (_, _, ours), (_, _, theirs) in zip(found, expected, strict=True):
        assert ours.SerializeToString() == theirs.SerializeToString()
