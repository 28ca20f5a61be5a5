"""The archive on a real Spark: the command from its words to files, and what DuckDB, pandas and Spark read in them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession

import rta_writers
from rta_supervisor.archive import manifest, verify
from rta_wire import archive_spec, content_digest, entry_ids, errors, keys
from rta_writers.archive import job as archive_job
from rta_writers.archive import job_events
from rta_writers.archive import task as archive_task
from rta_writers.options.target import Target
from tests.spark import frames
from tests.support import samples, supervisors
from tests.support.waiting import wait_until

VALUES = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 0.1, 1e308]).tolist()
VALUES_BITS = np.array([*VALUES, 0.0])
VALUES_BITS[-1:] = np.array([0xFFF80000DEADBEEF], np.uint64).view(np.float64)
"""The last one is a NaN with bits of its own."""

FILES = "date=*/source=*/session=*/part-*.parquet"


def order_for(url: str, folder: Path, *streams: archive_spec.StreamSpec) -> archive_spec.ArchiveSpec:
    return archive_spec.ArchiveSpec(
        url, "rtas:", "sessions:{identity}", "local[2]", str(folder), 3, False, (archive_spec.PassSpec(streams),)
    )


def stream_order(stream: str, sessions: dict[int, int], sample_type: str = "double") -> archive_spec.StreamSpec:
    """A stream with sessions by stream session id, and their sizes in bytes."""
    specs = {number: archive_spec.SessionSpec(f"run-{number}", size, "0-0") for number, size in sessions.items()}
    return archive_spec.StreamSpec(stream, "0-0", entry_ids.MAX, specs, sample_type, "raw")


def target_of(client: redis.Redis, url: str, number: int, stream: str = "rig") -> Target:
    target = Target(url, f"run-{number}", stream, number)
    client.set(target.keys.gate(stream, number), "open", ex=600)
    return target


def save(frame: Any, target: Target, **options: str) -> None:
    frame.write.format("rta").mode("append").options(**target.options(), **options).save()


def read_back(result: archive_spec.SessionResult, folder: Path) -> content_digest.Digest:
    digest = content_digest.Digest()
    files = [file for file in result.files if file.kind == "samples"]
    for file in verify.read_files(result.stream_session_id, files, folder).values():
        digest = digest.sum_of(file.digest)
    return digest


def test_one_pass_takes_many_sessions_of_several_streams(
    spark: SparkSession, client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream is read once to write and once to count; a large session has several files."""
    for number in (1, 2, 3):
        save(frames.long(spark, 4000), target_of(client, url, number), burstBytes="4096")
    integers = spark.sql(f"select 1 channel, 5L time, {2**53 + 1}L value")
    save(integers, target_of(client, url, 4, "other"), sampleType="int64")
    monkeypatch.setattr(archive_task, "GATHERED_BYTES", 1000)
    long = stream_order("rig", {1: 8000, 2: 100})
    entries_before: Any = client.xrange("stream:rig")
    client.delete("stream:rig")
    # Ranges go by time: a second from one entry to the next.
    for second, (_, fields) in enumerate(entries_before, 1):
        client.xadd("stream:rig", fields, id=f"{second * 1000}-0")
    order = order_for(url, tmp_path, long, stream_order("other", {4: 1}, "int64"))
    written: list[archive_job.Files] = []
    client.config_resetstat()
    results = {
        session.stream_session_id: session for session in archive_job.run(spark, order, order.passes[0], written.append)
    }
    calls: Any = client.info("commandstats")
    assert {number: session.samples.rows for number, session in results.items()} == {1: 4000, 2: 4000, 4: 1}
    for result in results.values():
        assert result.begins_with_json is False
        assert result.problem == ""
        assert result.read == result.counted
        assert read_back(result, tmp_path) == content_digest.Digest(result.samples.rows, result.samples.sum)
    assert len(results[4].files) == 2
    assert len(results[1].files) > 2
    assert written[0].keys() == results.keys()
    entries = client.xlen("stream:rig")
    assert calls["cmdstat_xrange"]["calls"] < 2 * entries / 128 + 20
    frame = pd.concat(pd.read_parquet(path) for path in tmp_path.glob("[12]/part-*"))
    assert sorted(zip(frame.channel, frame.time, frame.value, strict=True)) == sorted([*frames.rows(4000)] * 2)


def test_a_task_that_fails_says_why(spark: SparkSession, client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Entries that can't be decoded belong to their session; a folder that can't be written ends the run."""
    save(frames.long(spark, 10), target_of(client, url, 1))
    client.xadd("stream:rig", {"id": "2", "data": b"junk"})
    order = order_for(url, tmp_path, stream_order("rig", {1: 1, 2: 1}))
    results = {
        session.stream_session_id: session for session in archive_job.run(spark, order, order.passes[0], lambda _: None)
    }
    assert "can't be decoded" in results[2].problem
    assert (results[1].problem, results[1].samples.rows) == ("", 10)
    (tmp_path / "file").touch()
    order = order_for(url, tmp_path / "file", stream_order("rig", {1: 1}))
    with pytest.raises(errors.ArchiveUnwritable, match="Not a directory"):
        archive_job.run(spark, order, order.passes[0], lambda _: None)
    wrong = order_for(url, tmp_path, stream_order("rig", {1: 1}, "doubles"))
    with pytest.raises(errors.BadConfiguration, match="sample_type 'doubles' of stream rig"):
        archive_job.run(spark, wrong, wrong.passes[0], lambda _: None)


def test_trouble_in_a_task_has_its_name() -> None:
    """The name and the message of a task's error are found in the text of Spark's."""
    text = "Job aborted\n  File x\nrta_wire.errors.RedisUnreachable: No Redis answers at redis://x: gone.\n\tat scala"
    failure = job_events.spark_failure(RuntimeError(text))
    assert (failure.code, failure.message) == ("RedisUnreachable", "No Redis answers at redis://x: gone.")
    assert job_events.spark_failure(RuntimeError("\njust so\n\tat x")).message == "Spark is not available: just so"


@pytest.mark.timeout(600)
def test_the_command_from_its_words_to_what_everybody_reads(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, url: str, tmp_path: Path
) -> None:
    """A process of its own with a Spark of its own; then DuckDB, pandas and Spark find every bit."""
    session = sessions.open("run/1 é", stream="rig.20260516")
    times = samples.START_NS + np.arange(len(VALUES_BITS))
    with rta_writers.BurstWriter(session.options, unit="u") as writer:
        writer.samples(np.arange(len(VALUES_BITS), dtype=np.uint32), times, VALUES_BITS)
    event = pa.record_batch({"event_definition_id": pa.array([3], pa.int32()), "time": [9], "status_text": ["up"]})
    with rta_writers.BurstWriter({**session.options, "form": "events"}, unit="e") as writer:
        writer.write(event)
    session.close()
    wait_until(lambda: client.zcard("rtas:unarchived"), what="a session that waits")
    ran = subprocess.run(
        [sys.executable, "-m", "rta_supervisor", "archive", "--redis-url", url, "--path", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )
    assert ran.returncode == 0, ran
    [done] = msgspec.json.decode(ran.stdout)["sessions"]
    assert (done["outcome"], done["samples"], done["events"]) == ("archived", len(VALUES_BITS), 1)
    folder = Path(done["folder"])
    assert folder.name == f"session=run_1__-{session.target.stream_session_id}"
    assert folder.parent.name == "source=rig"

    query = f"select * from read_parquet('{tmp_path}/{FILES}', hive_partitioning = true) order by channel"  # noqa: S608 - a path of ours
    relation: Any = duckdb.sql(query)
    table = relation.to_arrow_table()
    assert table["value"].to_numpy().tobytes() == VALUES_BITS.tobytes()
    assert table["time"].to_pylist() == times.tolist()
    assert set(table["identity"].to_pylist()) == {"run/1 é"}
    assert set(table["source"].to_pylist()) == {"rig"}
    [status] = duckdb.read_parquet(f"{folder}/events-*.parquet").select("status_text").fetchall()
    assert status == ("up",)

    [part] = folder.glob("part-*.parquet")
    frame = pd.read_parquet(part).sort_values("channel")
    assert frame["value"].to_numpy().tobytes() == VALUES_BITS.tobytes()
    assert frame["time"].tolist() == times.tolist()
    assert frame["integer"].isna().all()

    rows = spark.read.option("pathGlobFilter", "part-*.parquet").parquet(str(tmp_path)).orderBy("channel").toArrow()
    assert rows["time"].to_pylist() == times.tolist()
    values = rows["value"].to_numpy()
    # Spark's own rows hold one NaN only.
    plain = ~np.isnan(VALUES_BITS)
    assert values[plain].tobytes() == VALUES_BITS[plain].tobytes()
    assert np.isnan(values[~plain]).all()


def test_files_have_the_names_and_units_of_channels(
    spark: SparkSession, client: redis.Redis, url: str, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Types are those of the configuration, and DuckDB finds a channel by its name; others have none."""
    frame = spark.sql("select 1L + id time, cast(id as float) rpm, tinyint(id) gear from range(10)")
    channels = rta_writers.Channels.of(frame)
    with sessions.session("run-1", stream="rig", channels=channels) as session:
        save(frame, session.target, config=channels.identifier)
    save(frames.long(spark, 10), target_of(client, url, 2))
    order = order_for(url, tmp_path, stream_order("rig", {1: 100, 2: 100}))
    results = archive_job.run(spark, order, order.passes[0], lambda _files: None)
    assert [read_back(result, tmp_path).rows for result in results] == [20, 10]
    files = [str(path) for path in tmp_path.glob("[12]/part-*")]
    query = "select time, value from read_parquet(?) where name = 'gear' order by time"
    assert duckdb.execute(query, [files]).fetchall() == [(1 + n, float(n)) for n in range(10)]
    others = "select count(*) from read_parquet(?) where name is null and unit is null"
    assert duckdb.execute(others, [files]).fetchall() == [(10,)]


@pytest.mark.timeout(300)
def test_a_supervisor_archives_an_open_session_by_itself(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """A whole daemon with `archive.every_s` starts a Spark of its own, which adds a part that trimming knows of."""
    environment = {"RTA_ARCHIVE__PATH": str(tmp_path), "RTA_ARCHIVE__EVERY_S": "1"}
    with supervisors.running(url, environment) as supervisor:
        session = rta_writers.SessionClient(url, timeout_s=20).open("run-1", stream="rig")
        with rta_writers.BurstWriter(session.options, unit="u") as writer:
            writer.samples([1, 2], [samples.START_NS] * 2, [0.5, 0.25])
        wait_until(lambda: supervisor.events("archive_done"), what="a run", timeout_s=200)
        assert supervisor.events("archive_done")[0]["samples"] == 2
        [folder] = tmp_path.glob("date=*/source=rig/session=run-1-*")
        [part] = manifest.read_session(folder, "run-1").parts
        assert pd.read_parquet(folder / part.files_of("samples")[0].name)["value"].tolist() == [0.5, 0.25]
        noted: Any = client.hget(keys.Keys().session_state("run-1"), "archivedUntil")
        assert noted.decode().split()[0] == part.until
        assert supervisor.events("archive_failed") == []
