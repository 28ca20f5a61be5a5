"""A session read as one: what is in the archive, in the cold part and in the live stream, each sample once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import entry_ids, errors
from rta_wire.archive import selection
from rta_wire.codec.layout import Layout, Plan, SampleType
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_batches, archive_files, batches, plan
from rta_writers.read.archive_files import ArchiveRange
from tests.integration.archive.archive_runs import archive, sessions_of
from tests.support import archive_job_without_spark, samples

CHANNELS = 4
ROWS = 50


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of the archive job run in this process."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)


def add(session: rta_writers.Session, step: int, **options: str) -> None:
    """The samples of one step: 50 times of four channels, and an event."""
    times = samples.START_NS + (step * ROWS + np.arange(ROWS)) * 10**9
    channels = np.tile(np.arange(CHANNELS, dtype=np.uint32), ROWS)
    values = np.arange(step * ROWS * CHANNELS, (step + 1) * ROWS * CHANNELS)
    with rta_writers.BurstWriter({**session.options, **options}, unit=f"u{step}") as writer:
        writer.samples(channels, np.repeat(times, CHANNELS), values if options else values.astype(float))
    event = pa.record_batch({"event_definition_id": pa.array([step], pa.int32()), "time": [int(times[0])]})
    with rta_writers.BurstWriter({**session.options, "form": "events"}, unit=f"e{step}") as writer:
        writer.write(event)


def read(url: str, path: Path | str, row_filter: batches.RowFilter | None = None, **changes: Any) -> pa.Table:
    """All rows of session run-1, as tasks of Spark read them."""
    options = ReadOptions(redis_url=url, session="run-1", archive=str(path), **changes)
    row_filter = row_filter or batches.RowFilter()
    found = []
    with rta_writers.connection.connect(url) as client:
        for one in plan.plan_read(client, options, row_filter.of_samples):
            if isinstance(one, ArchiveRange):
                found += list(archive_batches.read_batches(options, one, row_filter))
            else:
                found += list(batches.read_batches(options, one, row_filter))
    return pa.Table.from_batches(found, batches.schema(options))


def values_of(table: pa.Table) -> list[float]:
    return sorted(float(value) for value in table["value"].to_pylist())


def expected(steps: int) -> list[float]:
    return [float(value) for value in range(steps * ROWS * CHANNELS)]


def test_each_sample_comes_once_wherever_it_is(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Parts in the archive and later entries in the stream; then with nothing of the parts left in Redis; then closed,
    and with nothing left in Redis at all."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(3):
            add(session, step)
            archive(url, tmp_path)
        add(session, 3)
        assert values_of(read(url, tmp_path)) == expected(4)
        assert values_of(read(url, "none")) == expected(4)
        events = read(url, tmp_path, form=ReadForm.EVENTS)
        assert sorted(events["event_definition_id"].to_pylist()) == [0, 1, 2, 3]
        [folder] = tmp_path.glob("date=*/source=*/session=*")
        until = archive_files.read_folder(folder, "run-1").archive.until
        client.xtrim("stream:rig", minid=entry_ids.next_id(until), approximate=False)
        assert values_of(read(url, tmp_path)) == expected(4)
        with pytest.raises(errors.StreamGap):
            read(url, "none")
        session.close()
        archive(url, tmp_path, "--session", "run-1")
    client.flushall()
    table = read(url, tmp_path)
    assert values_of(table) == expected(4)
    assert set(table["session"].to_pylist()) == {"run-1"}
    with pytest.raises(errors.UnknownSession, match="nor in an archive"):
        read(url, "none")
    with pytest.raises(errors.Usage, match="there is no folder"):
        read(url, tmp_path / "nowhere")


def test_the_path_of_the_archive_is_learnt_from_supervisors(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Their registration has it; without the option it is used, also once Redis has forgotten the session."""
    with sessions_of(url, RTA_ARCHIVE__PATH=str(tmp_path)) as sessions:
        session = sessions.open("run-1", stream="rig")
        add(session, 0)
        session.close()
        archive(url, tmp_path, "--session", "run-1")
        client.delete("stream:rig", "sessions:run-1")
        options = ReadOptions(redis_url=url, session="run-1")
        ranges = plan.plan_read(client, options, selection.SampleFilter())
        assert [type(one) for one in ranges] == [ArchiveRange]


def test_entries_are_cut_out_of_a_part(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """A read that begins in the middle of a part gives what comes after that entry, and no more."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(3):
            add(session, step)
        archive(url, tmp_path)
    # Without a supervisor, which would add time ranges.
    [folder] = tmp_path.glob("date=*/source=*/session=*")
    until = archive_files.read_folder(folder, "run-1").archive.until
    entries: Any = client.xrange("stream:rig", max=until)
    client.delete("stream:rig")
    lengths = [len(read(url, tmp_path, starting_offset=entry_id.decode())) for entry_id, _ in entries]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (3 * ROWS * CHANNELS, 0)
    assert ROWS * CHANNELS in lengths


def test_filters_skip_files_and_row_groups(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters say what was read: one part of five, and of its row groups the one with the channel."""
    monkeypatch.setattr("rta_writers.archive.parquet.ROW_GROUP_ROWS", ROWS)
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(5):
            add(session, step)
            archive(url, tmp_path)
        [folder] = tmp_path.glob("date=*/source=*/session=*")
        stored = archive_files.read_folder(folder, "run-1")
        start_ns = samples.START_NS + 2 * ROWS * 10**9
        wanted = selection.SampleFilter(start_ns, start_ns + 9 * 10**9, frozenset([3]))
        counters = selection.ReadCounters()
        [one] = archive_files.plan_ranges(stored, "samples", list(stored.archive.segments("0-0")), wanted, counters)
        found = list(archive_files.iter_samples(one, wanted, counters))
        assert sum(len(rows.times_ns) for rows in found) == 10
        assert (counters.parts, counters.parts_skipped) == (1, 4)
        assert (counters.files, counters.files_skipped) == (1, 4)
        assert (counters.row_groups, counters.row_groups_skipped, counters.rows) == (1, CHANNELS - 1, ROWS)
        row_filter = batches.RowFilter(wanted.start_ns, wanted.end_ns, wanted.channels)
        assert len(read(url, tmp_path, row_filter)) == 10


def test_a_damaged_part_is_named_and_not_served(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """The stream is read in its place while it has the entries; then, or where a bit is flipped, there is an error."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(3):
            add(session, step)
            archive(url, tmp_path)
        [folder] = tmp_path.glob("date=*/source=*/session=*")
        file = min(folder.glob("part-00002-*.parquet"))
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        assert values_of(read(url, tmp_path)) == expected(3)
        client.xtrim("stream:rig", maxlen=1, approximate=False)
        with pytest.raises(errors.ArchiveDamaged, match=file.name):
            read(url, tmp_path)
        flipped = bytearray(whole)
        flipped[len(whole) // 4] ^= 1
        file.write_bytes(bytes(flipped))
        with pytest.raises(errors.ArchiveDamaged, match=file.name):
            read(url, tmp_path)


def test_whole_numbers_keep_their_digits(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of int64 from the archive is what the stream gave."""
    layouts = Plan(default=Layout(type=SampleType.INT64))
    monkeypatch.setenv("RTA_ARCHIVE__SOURCES__RIG__SAMPLE_TYPE", "int64")
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        add(session, 0, sampleType="int64")
        before = sorted(read(url, "none", layouts=layouts)["value"].to_pylist())
        archive(url, tmp_path)
        table = read(url, tmp_path, layouts=layouts)
        assert table.schema.field("value").type == pa.int64()
        assert sorted(table["value"].to_pylist()) == before
