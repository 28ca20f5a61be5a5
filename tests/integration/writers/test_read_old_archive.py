"""An archive that version 0.1.0 made, read by this version: its files lack parts, messages and configurations."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.archive import manifest, verify
from rta_wire import errors
from rta_wire.codec.layout import Layout, Plan, SampleType
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_batches, batches, plan, wide
from rta_writers.read.archive_files import ArchiveRange
from tests.support.samples import START_NS

ARCHIVE = Path(__file__).parents[2] / "golden" / "archive-0.1.0"
VALUES = [*(np.arange(40) * 0.25).tolist(), float("nan"), -0.0]
TIMES = [*(START_NS + np.arange(40) * 10**6).tolist(), START_NS + 10**9, START_NS + 10**9 + 1]


def read(url: str, identity: str, **changes: Any) -> pa.Table:
    """All rows of a session that Redis does not know."""
    options = ReadOptions(redis_url=url, session=identity, archive=str(ARCHIVE), **changes)
    row_filter = batches.RowFilter()
    with rta_writers.connection.connect(url) as client:
        ranges = plan.plan_read(client, options, row_filter.of_samples)
    assert all(isinstance(one, ArchiveRange) for one in ranges)
    found = [
        batch
        for one in ranges
        if isinstance(one, ArchiveRange)
        for batch in archive_batches.read_batches(options, one, row_filter)
    ]
    return pa.Table.from_batches(found, batches.schema(options))


def test_samples_and_events_come_back_bit_by_bit(url: str) -> None:
    """Doubles with their bits, whole numbers with their digits, events with their data."""
    table = read(url, "old run/1").sort_by("time")
    assert table["time"].to_pylist() == TIMES
    assert table["value"].to_numpy().tobytes() == np.array(VALUES).tobytes()
    assert table["channel"].to_pylist() == [*(n % 4 for n in range(40)), 1, 1]
    counts = read(url, "counts-1", layouts=Plan(default=Layout(type=SampleType.INT64)))
    assert counts.sort_by("time")["value"].to_pylist() == [2**60 + 1 + n for n in range(5)]
    [event] = read(url, "old run/1", form=ReadForm.EVENTS).to_pylist()
    assert (event["event_definition_id"], event["time"], event["app_name"]) == (3, START_NS + 5, "app")
    assert (event["status_text"], event["raw_data"]) == ("up", [1.5, 2.5])


def test_a_session_that_redis_still_knows(client: redis.Redis, url: str) -> None:
    """It is read from the archive though its entries are trimmed, also if it began in the middle of its stream. What
    comes after one of its entries can't be told from what came before."""
    client.hset("sessions:old run/1", mapping={"streamName": "rig", "streamSessionId": 1, "streamPosition": "5-0"})
    client.expire("sessions:old run/1", 60)
    for entry in ("1794991361318-0", "1794991361319-0"):
        client.xadd("stream:rig", {"id": "9", "data": b""}, id=entry, maxlen=1, approximate=False)
    assert sorted(read(url, "old run/1")["time"].to_pylist()) == TIMES
    assert len(read(url, "old run/1", form=ReadForm.EVENTS)) == 1
    for form in (ReadForm.SAMPLES, ReadForm.EVENTS):
        with pytest.raises(errors.ArchiveDamaged, match="read as a whole"):
            read(url, "old run/1", form=form, starting_offset="1794991360626-0")


def test_a_wide_read_takes_its_channels_from_the_options(client: redis.Redis, url: str) -> None:
    """There were no configurations then."""
    options = ReadOptions(
        redis_url=url,
        session="old run/1",
        archive=str(ARCHIVE),
        form=ReadForm.WIDE,
        channels={"a": 1, "b": 2},
    )
    row_filter = batches.RowFilter(end_ns=START_NS + 5 * 10**6)
    [wide_range] = wide.plan_ranges(client, options, row_filter)
    [rows] = wide.read_batches(options, wide_range, row_filter)
    assert rows.to_pydict() == {
        "time": [START_NS + n * 10**6 for n in (1, 2, 5)],
        "a": [0.25, None, 1.25],
        "b": [None, 0.5, None],
    }


def test_the_manifest_says_what_the_files_hold() -> None:
    """It is read as the only part of its session, and digests of rows are made as they were."""
    [folder] = ARCHIVE.glob("date=*/source=rig/session=*")
    [part] = manifest.read_session(folder, "old run/1", with_content=True).parts
    assert (part.format, part.number, part.is_last) == (1, 1, True)
    for file in part.files:
        assert verify.digest_file(folder / file.name, file.kind).text == part.content[file.kind]


def test_a_file_of_it_that_is_damaged_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a page checksum in its files, by its size."""
    [folder] = ARCHIVE.glob("date=*/source=counts/session=*")
    copy = tmp_path / folder.relative_to(ARCHIVE)
    copy.mkdir(parents=True)
    for path in folder.iterdir():
        data = path.read_bytes()
        (copy / path.name).write_bytes(data[:-1] if path.suffix == ".parquet" else data)
    monkeypatch.setattr("tests.integration.writers.test_read_old_archive.ARCHIVE", tmp_path)
    with pytest.raises(errors.ArchiveDamaged, match="does not have its size"):
        read(url, "counts-1")
