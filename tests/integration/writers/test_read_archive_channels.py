"""Sessions with a configuration whose beginning is in the archive: in wide form, and after Redis forgot them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import entry_ids, errors
from rta_wire.channels import model
from rta_wire.codec.layout import SampleType
from rta_writers.control import configs
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_batches, archive_files, batches, channels, plan, wide
from rta_writers.read.archive_files import ArchiveRange
from tests.integration.archive.archive_runs import archive, sessions_of
from tests.support import archive_job_without_spark, samples

ROWS = 6
TYPES = (SampleType.DOUBLE, SampleType.FLOAT, SampleType.INT8, SampleType.UINT32, SampleType.INT64, SampleType.UINT64)
LIST = model.build(
    model.Channel(id=10 + index, name=kind.value, type=kind, unit=f"u{index}") for index, kind in enumerate(TYPES)
)
BEYOND_DOUBLES = 2**60 + 1


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of the archive job run in this process, which has no configuration in memory yet."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    configs.channel_list.cache_clear()


def rows(first: int, count: int = ROWS) -> pa.Table:
    """A row for each time, with a channel of each type; every third row lacks one."""
    numbers = np.arange(first, first + count)
    columns: dict[str, Any] = {"time": pa.array(samples.START_NS + numbers * 10**9)}
    for channel in LIST.channels:
        is_wide = channel.type in (SampleType.INT64, SampleType.UINT64)
        values = pa.array(numbers + (BEYOND_DOUBLES if is_wide else 0))
        mask = (numbers % 3 == 0) & (channel.type is SampleType.INT8)
        column = pa.array(values.to_numpy(), mask=mask)
        columns[channel.name] = column.cast(batches.column_type(channel.type))
    return pa.table(columns)


def add(session: rta_writers.Session, step: int) -> None:
    with rta_writers.BurstWriter(session.options, unit=f"u{step}") as writer:
        table = rows(step * ROWS)
        # A decimal is written as a double.
        writer.write(table.set_column(len(table.column_names) - 1, "uint64", table["uint64"].cast(pa.uint64())))


def options_of(url: str, path: Path | str, **changes: Any) -> ReadOptions:
    return ReadOptions(redis_url=url, session="run-1", archive=str(path), **changes)


def read_wide(url: str, path: Path | str, row_filter: batches.RowFilter | None = None, **changes: Any) -> pa.Table:
    """Session run-1 in wide form, as tasks of Spark read it."""
    options = options_of(url, path, form=ReadForm.WIDE, **changes)
    row_filter = row_filter or batches.RowFilter()
    with rta_writers.connection.connect(url) as client:
        ranges = wide.plan_ranges(client, options, row_filter)
        found = [batch for one in ranges for batch in wide.read_batches(options, one, row_filter)]
        return pa.Table.from_batches(found, wide.schema(channels.wide_channels(client, options)))


def read_long(url: str, path: Path | str) -> pa.Table:
    """Session run-1 in long form, as tasks of Spark read it."""
    row_filter = batches.RowFilter()
    with rta_writers.connection.connect(url) as client:
        options = channels.resolve(client, options_of(url, path))
        ranges = plan.plan_read(client, options, row_filter.of_samples)
        bindings = channels.read_bindings(client, options, ranges[0].identities)
        found = []
        for one in ranges:
            if isinstance(one, ArchiveRange):
                found += list(archive_batches.read_batches(options, one, row_filter, bindings))
            else:
                found += list(batches.read_batches(options, one, row_filter, bindings))
    return pa.Table.from_batches(found, batches.schema(options))


def archived(url: str, client: redis.Redis, path: Path, session: rta_writers.Session) -> None:
    """Two parts that the stream no longer has, then what is live."""
    for step in range(2):
        add(session, step)
        archive(url, path)
    [folder] = path.glob("date=*/source=*/session=*")
    until = archive_files.read_folder(folder, "run-1").archive.until
    client.xtrim("stream:rig", minid=entry_ids.next_id(until), approximate=False)
    add(session, 2)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_wide_read_joins_archive_and_stream(client: redis.Redis, url: str, tmp_path: Path, partitions: int) -> None:
    """Rows come with every digit, from the archive and the stream as one; filters and grids see both."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(LIST))
        archived(url, client, tmp_path, session)
        assert read_wide(url, tmp_path, partitions=partitions).equals(rows(0, 3 * ROWS))
        with pytest.raises(errors.StreamGap):
            read_wide(url, "none", partitions=partitions)
        start_ns = samples.START_NS + 4 * 10**9
        few = batches.RowFilter(start_ns, start_ns + 10 * 10**9)
        assert read_wide(url, tmp_path, few, partitions=partitions).equals(rows(4, 11))
        # Four points for each sample: where a task begins between two samples, it needs the one before.
        grid = read_wide(url, tmp_path, partitions=partitions, grid_ns=10**9 // 4, columns=("int64",))
        assert grid["int64"].to_pylist() == [BEYOND_DOUBLES + point // 4 for point in range(4 * (3 * ROWS - 1) + 1)]


def test_a_long_read_of_several_types_gives_the_nearest_double(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Of whole numbers beyond those of doubles, from the archive and from the stream alike."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(LIST))
        archived(url, client, tmp_path, session)
        found = read_long(url, tmp_path).sort_by("time").to_pylist()
    for name in ("int64", "uint64"):
        values = [row["value"] for row in found if row["name"] == name]
        assert values == [float(BEYOND_DOUBLES + number) for number in range(3 * ROWS)]


def test_a_session_that_redis_forgot_has_its_channels(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Open or closed: names, units and types are in the archive, in long and in wide form."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(LIST))
        archived(url, client, tmp_path, session)
        archive(url, tmp_path)
        before = read_long(url, tmp_path)
    # Without a supervisor that would put the session back.
    client.flushall()
    configs.channel_list.cache_clear()
    assert read_wide(url, tmp_path, partitions=2).equals(rows(0, 3 * ROWS))
    after = read_long(url, tmp_path)
    assert after.equals(before)
    assert set(zip(after["name"].to_pylist(), after["unit"].to_pylist(), strict=True)) == {
        (channel.name, channel.unit) for channel in LIST.channels
    }
    [config] = tmp_path.glob("date=*/source=*/session=*/config-*.json")
    config.write_bytes(config.read_bytes().replace(b"u0", b"v0"))
    archive_files._load_channels.cache_clear()
    assert "name" not in read_long(url, tmp_path).column_names
