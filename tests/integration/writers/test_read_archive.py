"""A session read as one: what is in the archive, in the cold part and in the live stream, each sample once."""

import itertools
import os
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors
from rta_wire.archive import selection
from rta_wire.codec.layout import Layout, Plan, SampleType
from rta_wire.stream import source_cursor
from rta_wire.stream.source_cursor import SourcePosition
from rta_writers import connection
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_batches, archive_files, archive_ranges, batches, lookup, plan
from rta_writers.read.archive_files import ArchiveRange
from tests.integration.archive.archive_runs import NAMES, archive, sessions_of
from tests.support import archive_job_without_spark, cold_streams, commands, samples, supervisors
from tests.support.waiting import wait_until

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
    with rta_writers.connection.connect(url) as client:
        return read_ranges(options, plan.plan_read(client, options, row_filter.of_samples), row_filter)


def read_ranges(options: ReadOptions, ranges: list[plan.AnyRange], row_filter: batches.RowFilter) -> pa.Table:
    """The rows of ranges, each read as a task does."""
    found = [batch for one in ranges for batch in archive_batches.read_range(options, one, row_filter)]
    return pa.Table.from_batches(found, batches.schema(options))


def read_steps(client: redis.Redis, url: str, path: Path) -> pa.Table:
    """All rows of session run-1, as a streaming query reads them that begins at the earliest entry."""
    options = ReadOptions(redis_url=url, session="run-1", archive=str(path))
    source = lookup.find_source(client, options)
    latest = SourcePosition.latest(source.name, archive_ranges.read_source_counters(client, options, source))
    middle = source_cursor.StreamPosition(source.archived_until)
    positions = [{"id": source.after}, SourcePosition(source.name, {source.name: middle}).dump(), latest.dump()]
    found = []
    for step in itertools.pairwise(SourcePosition.load(source.name, position) for position in positions):
        found += plan.plan_step(client, options, source, step, {source.stream_session_id or 0: "run-1"})
    return read_ranges(options, found, batches.RowFilter())


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


async def test_archive_cold_and_live_are_one(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, url: str, tmp_path: Path
) -> None:
    """Parts that were made of live and of cold entries, then what is cold and not archived, then what is live: as a
    batch, and as steps of a stream from its beginning, whichever of them stand in Redis too."""
    store = CompactionStore(link, NAMES, "rig")
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step, is_archived in enumerate((True, True, False)):
            add(session, step)
            if step:
                await cold_streams.move_all(store)
            if is_archived:
                await anyio.to_thread.run_sync(archive, url, tmp_path)
        add(session, 3)
        extent = cold_streams.read_extent(client)
        assert extent is not None
        assert cold_streams.stream_length(client, "stream:rig") > 0, "nothing is live"
        stored = archive_files.find_session(str(tmp_path), "run-1")
        assert stored is not None
        assert len(stored.archive.parts) == 2
        assert entry_ids.is_after(extent.last_id, stored.archive.until), "nothing is cold alone"
        assert values_of(read(url, tmp_path)) == expected(4)
        assert values_of(read_steps(client, url, tmp_path)) == expected(4)
        # Cold batches that the archive has are trimmed.
        limits = settings.TrimSettings(max_entries=1, min_retention_s=0, entry_s=0)
        required = ArchiveSettings(path=str(tmp_path), required=True, max_bytes=10**9)
        config = msgspec.structs.replace(cold_streams.config(trim=limits), archive=required)
        await cold_streams.compactor(link, catalogue, config).sweep()
        assert cold_streams.read_extent(client) != extent, "nothing was trimmed"
        assert values_of(read(url, tmp_path)) == expected(4)
        assert values_of(read_steps(client, url, tmp_path)) == expected(4)


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


def test_a_read_that_begins_behind_the_archive(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Entries that were trimmed between the archive and its beginning are no gap of it."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        add(session, 0)
        archive(url, tmp_path)
        add(session, 1)
        last: Any = client.xrevrange("stream:rig", count=1)
        begin = last[0][0].decode()
        add(session, 2)
        client.xtrim("stream:rig", minid=begin, approximate=False)
        with pytest.raises(errors.StreamGap):
            read(url, tmp_path)
        assert len(read(url, tmp_path, starting_offset=begin)) == ROWS * CHANNELS


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


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_part_whose_manifest_can_not_be_read(client: redis.Redis, url: str, tmp_path: Path, is_closed: bool) -> None:
    """The first, one in between, or the last: the stream is read in its place while it has the entries. Then, or where
    there is no stream any more, there is an error that names the file, and never fewer rows."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(3):
            add(session, step)
            archive(url, tmp_path)
        if is_closed:
            session.close()
            archive(url, tmp_path, "--session", "run-1")
    [folder] = tmp_path.glob("date=*/source=*/session=*")
    manifests = sorted(folder.glob("part-*.json"))
    assert len(manifests) == 3 + is_closed

    def trim() -> None:
        client.xtrim("stream:rig", maxlen=0, approximate=False)

    for lose in (lambda: None, trim, client.flushall):
        lose()
        for path in manifests:
            data = path.read_bytes()
            path.write_text("{")
            if client.xlen("stream:rig"):
                assert values_of(read(url, tmp_path)) == expected(3)
            else:
                with pytest.raises(errors.ArchiveDamaged, match=path.name):
                    read(url, tmp_path)
                assert len(read(url, tmp_path, fail_on_data_loss=False)) in {400, 600}
            path.write_bytes(data)
    for path in manifests:
        path.write_text("{")
    with pytest.raises(errors.ArchiveDamaged, match="part-00001"):
        read(url, tmp_path)
    assert archive_files.find_session(str(tmp_path), "run") is None, "its name begins like that of another session"


def test_what_was_archived_before_redis_was_lost(tmp_path: Path) -> None:
    """Of two sessions of one stream that supervisors put back: both begin anew in Redis, and what the archive has of
    them is read with what has come since."""
    with (
        server.running(port=server.free_port()) as own_server,
        supervisors.running(own_server.url) as supervisor,
        connection.connect(own_server.url) as client,
    ):
        url = own_server.url
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        sessions.open("other", stream="rig")
        add(sessions.open("run-1", stream="rig"), 0)
        wait_until(lambda: sessions.get("run-1").totals.samples == ROWS * CHANNELS, what="the report")
        assert archive(url, tmp_path).code == 0
        # Whoever lists sessions has the catalogue written first.
        assert {info.identity for info in sessions.list()} == {"other", "run-1"}
        own_server.kill()
        own_server.start()
        assert supervisor.wait_for_event("redis_made_whole")["sessions_restored"] == 2
        add(sessions.open("run-1", stream="rig"), 1)
        assert values_of(read(url, tmp_path)) == expected(2)
        assert values_of(read_steps(client, url, tmp_path)) == expected(2)
        client.xtrim("stream:rig", maxlen=1, approximate=False)
        with pytest.raises(errors.StreamGap, match="are gone"):
            read(url, tmp_path)


def test_a_stream_that_began_again_with_lower_ids(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """As after a loss of Redis on a host whose clock was set back: what came since can't be told from what is
    archived, and a read and a run say so."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        add(session, 0)
        archive(url, tmp_path)
        client.delete("stream:rig")
        client.xadd("stream:rig", {"id": "1", "data": b""}, id="5-0")
        with pytest.raises(errors.StreamGap, match="began again with lower ids"):
            read(url, tmp_path)
        assert values_of(read(url, tmp_path, fail_on_data_loss=False)) == expected(1)
        commands.refused(archive(url, tmp_path), 65, "began again with lower ids: it ends at 5-0")


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_read_is_overtaken(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_archived: bool
) -> None:
    """Entries that are trimmed after a read was planned come from the archive where it has them by then, and a task in
    the middle of them goes on there. What the archive has not is a gap."""
    monkeypatch.setattr(batches, "ENTRIES_PER_READ", 1)
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for step in range(3):
            add(session, step)
            if step == 0:
                archive(url, tmp_path)
        options = ReadOptions(redis_url=url, session="run-1", archive=str(tmp_path), partitions=1)
        ranges = plan.plan_read(client, options, selection.SampleFilter())
        assert [type(one) for one in ranges] == [ArchiveRange, plan.EntryRange]
        reads = [archive_batches.read_range(options, one, batches.RowFilter()) for one in ranges]
        found = [next(reads[1])]
        if is_archived:
            archive(url, tmp_path)
        add(session, 3)
        newest: Any = client.xrevrange("stream:rig", count=1)
        client.xtrim("stream:rig", minid=newest[0][0], approximate=False)
        if not is_archived:
            with pytest.raises(errors.StreamGap, match="are gone"):
                list(reads[1])
            lenient = msgspec.structs.replace(options, fail_on_data_loss=False)
            assert list(archive_batches.read_range(lenient, ranges[1], batches.RowFilter())) == []
            return
        found += [batch for one in reads for batch in one]
        assert values_of(pa.Table.from_batches(found)) == expected(3)


def test_a_query_reads_manifests_where_they_changed(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is as it was is not read at each trigger, and a new part is noticed."""
    reads: list[Path] = []
    read_folder = archive_files.read_folder

    def counted(folder: Path, identity: str) -> archive_files.StoredSession:
        reads.append(folder)
        return read_folder(folder, identity)

    monkeypatch.setattr(archive_files, "read_folder", counted)

    def parts() -> int:
        stored = archive_files.find_kept_session(str(tmp_path), "run-1", session.target.stream_session_id)
        return 0 if stored is None else len(stored.archive.parts)

    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        assert parts() == 0
        for number in (1, 2):
            add(session, number)
            archive(url, tmp_path)
            assert (parts(), parts()) == (number, number)
            [folder] = tmp_path.glob("date=*/source=*/session=*")
            os.utime(folder, (number, number))  # it has been as it is for long
            reads.clear()
            assert (parts(), parts(), parts()) == (number, number, number)
            assert len(reads) == 1


def test_a_session_that_is_idle_in_a_busy_stream(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """What the archive has seen may be trimmed: of a session that had nothing in there nothing is missing, whether it
    had samples before or none at all. What it gets later follows."""

    def archive_and_trim(number: int) -> None:
        with rta_writers.BurstWriter(other.options, unit=f"o{number}") as writer:
            writer.samples([1], [samples.START_NS], [0.5])
        newest: Any = client.xrevrange("stream:rig", count=1)
        assert archive(url, tmp_path).code == 0
        client.xtrim("stream:rig", minid=entry_ids.next_id(newest[0][0].decode()), approximate=False)

    with sessions_of(url) as sessions:
        session, other = (sessions.open(identity, stream="rig") for identity in ("run-1", "other"))
        for step in range(2):
            for number in range(2):
                archive_and_trim(2 * step + number)
                assert values_of(read(url, tmp_path)) == expected(step)
                assert values_of(read_steps(client, url, tmp_path)) == expected(step)
            add(session, step)
            assert values_of(read(url, tmp_path)) == expected(step + 1)
        session.close()
        archive(url, tmp_path, "--session", "run-1")
        assert values_of(read(url, tmp_path)) == expected(2)
        [folder] = tmp_path.glob("date=*/source=*/session=run-1-*")
        parts = archive_files.read_folder(folder, "run-1").archive.parts
        assert [part.after for part in parts[1:]] == [part.until for part in parts[:-1]]
        assert not (folder / "idle.json").exists()
