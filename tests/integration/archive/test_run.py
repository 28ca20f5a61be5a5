"""Runs of the archive on a real server: what is written, and what a run leaves that ends at any step."""

import contextlib
import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet as pq
import pytest
import redis

from rta_supervisor.archive import manifest, spark_process
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_wire import archive_spec
from rta_wire.channels import config_json
from tests.integration.archive import small_disk
from tests.integration.archive.archive_runs import NAMES, REQUIRED, archive, closed, sessions_of, state
from tests.support import archive_job_without_spark, commands, described_sessions, fork_server
from tests.support.archives import waiting
from tests.support.channel_lists import numbered
from tests.support.control import write
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

CHANNELS = numbered(2)


def folders_in(path: Path) -> list[Path]:
    return sorted(manifest_path.parent for manifest_path in path.glob("date=*/source=*/session=*/manifest.json"))


def rows_in(folder: Path) -> list[tuple[int, int, float]]:
    tables = [pq.read_table(path) for path in folder.glob("part-*.parquet")]
    columns = ("channel", "time", "value")
    return sorted(row for table in tables for row in zip(*(table[name].to_pylist() for name in columns), strict=True))


def run_process(url: str, path: Path, *arguments: str, kill_at: str = "") -> fork_server.Fork:
    """The archive command as a process of its own, which kills itself at a step; waits for its end."""
    words = ["archive", "--path", str(path), "--redis-url", url, *arguments]
    environment = {**os.environ, "RTA_TEST_KILL_AT": kill_at}
    with tempfile.TemporaryFile() as log:
        process = fork_server.Fork("tests.support.archive_job_without_spark", words, environment, log)
        process.wait(120)
        log.seek(0)
        print(log.read().decode())  # pytest shows it where the test failed
    return process


@pytest.mark.usefixtures("without_spark")
def test_a_session_is_archived_and_recorded(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Files with every row, a mark in its state, its location in the catalogue; a second run changes nothing."""
    database = tmp_path / "catalogue.sqlite"
    with sessions_of(url, RTA_CATALOGUE__PATH=str(database)) as sessions:
        session = closed(client, sessions)
        other = sessions.open("run-2", stream="rig")
        planned = archive(url, tmp_path, "--dry-run", "--closed-only", "--json").json()["sessions"]
        assert [(session["identity"], session["samples"]) for session in planned] == [("run-1", 5)]
        [done] = archive(url, tmp_path, "--closed-only", "--json").json()["sessions"]
        [folder] = folders_in(tmp_path)
        assert (done["outcome"], done["complete"], done["folder"]) == ("archived", True, str(folder))
        assert [value for _, _, value in rows_in(folder)] == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert json.loads((folder / "session.json").read_text())["state"] == "closed"
        written = manifest.read(folder, "run-1")
        assert written is not None
        assert state(client)["archived"] == written.checksum == done["checksum"]
        assert waiting(client) == []
        before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert archive(url, tmp_path, "--closed-only", "--json").json() == {"sessions": []}
        [again] = archive(url, tmp_path, "--session", "run-1", "--json").json()["sessions"]
        assert (again["outcome"], again["checksum"]) == ("noted", done["checksum"])
        assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
        commands.refused(archive(url, tmp_path, "--session", "run-9"), 66, "There is no session 'run-9'")
        other.close()

    async def read_locations() -> list[Any]:
        catalogue = SqliteCatalogue(database)
        try:
            return await catalogue.locations("rig")
        finally:
            await catalogue.close()

    [location] = anyio.run(read_locations)
    assert (location.kind, location.location, location.stream_session_id) == (
        "files",
        str(folder),
        session.target.stream_session_id,
    )
    assert (location.first_id, location.last_id, location.entries) == (
        written.first_id,
        written.last_id,
        written.entries,
    )


@pytest.mark.usefixtures("without_spark")
def test_a_session_that_was_closed_a_moment_ago_is_archived(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Also before the catalogue has it: until then it is not on the list. Here somebody else writes the catalogue."""
    database = tmp_path / "catalogue.sqlite"
    with sessions_of(url, RTA_CATALOGUE__PATH=str(database)) as sessions:
        session = sessions.open("run-1", stream="rig")
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other_writer:
            other_writer.execute("BEGIN IMMEDIATE")
            write(client, session, 5)
            session.close()
            planned = archive(url, tmp_path, "--dry-run", "--closed-only", "--json").json()["sessions"]
            assert waiting(client) == []
        assert [(session["identity"], session["samples"]) for session in planned] == [("run-1", 5)]
        [done] = archive(url, tmp_path, "--json").json()["sessions"]
        assert (done["identity"], done["outcome"]) == ("run-1", "archived")
        wait_until(lambda: client.zcard(NAMES.session_index()) == 0, what="a catalogue that has the session")
        assert archive(url, tmp_path, "--json").json() == {"sessions": []}


@pytest.mark.usefixtures("without_spark")
def test_the_configuration_is_archived_with_its_session(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest names it and it stands beside: of an open session with its parts, and where Redis has no copy."""
    database = str(tmp_path / "catalogue.sqlite")
    monkeypatch.setenv("RTA_CATALOGUE__PATH", database)
    with sessions_of(url, RTA_CATALOGUE__PATH=database) as sessions:
        target = described_sessions.open_described(client, url, "run-1", CHANNELS)
        described_sessions.append(client, target, CHANNELS, [(1, 0, 8000.0), (2, 0, 200.0)])
        data = config_json.encode(CHANNELS)
        name = f"config-{config_json.identifier(data)}.json"
        [part] = archive(url, tmp_path, "--json").json()["sessions"]
        folder = Path(part["folder"])
        assert (part["outcome"], (folder / name).read_bytes()) == ("part", data)
        sessions.update("run-1", configBindings=[*bindings(client), {"identifier": "by hand", "channelOffset": 9}])
        client.unlink(NAMES.config(config_json.identifier(data)))
        (folder / name).unlink()
        sessions.close("run-1")
        wait_until(lambda: waiting(client), what="the session on the list")
        archive(url, tmp_path, "--json")
        written = manifest.read(folder, "run-1")
        assert written is not None
        assert (written.configs, (folder / name).read_bytes()) == ((config_json.identifier(data),), data)


def bindings(client: redis.Redis) -> list[dict[str, Any]]:
    """The bindings of `run-1`."""
    found: list[dict[str, Any]] = json.loads(client.hget("sessions:run-1", "json") or b"{}")["configBindings"]
    return found


@pytest.mark.usefixtures("without_spark")
def test_json_that_changes_after_archiving_is_archived_too(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """The session is in the list again, for its JSON alone: no entry is kept for it, and the files stay."""
    with sessions_of(url) as sessions:
        session = closed(client, sessions)
        [first] = archive(url, tmp_path, "--json").json()["sessions"]
        session.update(identifier="renamed")
        wait_until(lambda: waiting(client), what="the session on the list")
        assert not waiting(client)[0].needs_entries
        client.xtrim("stream:rig", maxlen=0)
        [second] = archive(url, tmp_path, "--json").json()["sessions"]
        assert (second["outcome"], second["samples"], second["complete"]) == ("noted", 5, True)
        assert second["checksum"] != first["checksum"]
        assert json.loads((Path(second["folder"]) / "session.json").read_text())["identifier"] == "renamed"
        assert waiting(client) == []
        assert state(client)["archived"] == second["checksum"]


@pytest.mark.usefixtures("without_spark")
def test_json_that_changes_during_a_run_is_archived_by_it(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is refused for the older version; the run writes the new JSON and asks again."""
    with sessions_of(url) as sessions:
        session = closed(client, sessions)

        def run_job_and_rename(spec: Any, staging: Path) -> Iterator[Any]:
            for event in archive_job_without_spark.run_job(spec, staging):
                session.update(identifier="renamed")
                yield event

        monkeypatch.setattr(spark_process, "run_job", run_job_and_rename)
        [done] = archive(url, tmp_path, "--json").json()["sessions"]
        assert json.loads((Path(done["folder"]) / "session.json").read_text())["identifier"] == "renamed"
        assert state(client)["archived"] == done["checksum"]
        assert state(client)["archivedVersion"] == state(client)["version"]


@pytest.mark.usefixtures("without_spark")
def test_an_incomplete_session_is_archived_or_refused(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Its beginning was trimmed: the rest is archived with a warning, or nothing where that is asked for."""
    with sessions_of(url) as sessions:
        closed(client, sessions, bursts=10)
        client.xtrim("stream:rig", maxlen=6, approximate=False)
        refused = archive(url, tmp_path, "--refuse-incomplete")
        assert refused.code == 65
        assert "it lacks entries before" in refused.err
        assert folders_in(tmp_path) == []
        ran = archive(url, tmp_path)
        assert ran.code == 0
        assert "warning: run-1: it lacks entries before" in ran.err
        [folder] = folders_in(tmp_path)
        written = manifest.read(folder, "run-1")
        assert written is not None
        assert not written.complete
        assert written.missing[1] == f"{10 - written.rows['samples']} of 10 samples that were reported"
        assert 0 < written.rows["samples"] < 10


@pytest.mark.usefixtures("without_spark")
def test_a_session_with_a_bad_burst_keeps_no_other_from_being_archived(
    client: redis.Redis, url: str, tmp_path: Path
) -> None:
    """Exit code 65, a sentence that names its entry, and the others are archived."""
    with sessions_of(url) as sessions:
        broken = sessions.open("run-1", stream="rig")
        client.xadd("stream:rig", {"id": broken.target.stream_session_id, "data": b"junk"})
        broken.close()
        closed(client, sessions, "run-2")
        wait_until(lambda: len(waiting(client)) == 2, what="both on the list")
        ran = archive(url, tmp_path)
        assert ran.code == 65
        assert "failed: Session 'run-1' can't be archived: A burst can't be decoded: entry" in ran.err
        assert "1 sessions archived, 1 failed" in ran.out
        assert [unarchived.identity for unarchived in waiting(client)] == ["run-1"]
        assert len(folders_in(tmp_path)) == 1


def test_a_run_that_is_killed_at_any_step_is_continued(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """The next run loses nothing, doubles nothing and leaves no staging folder; until it is marked, the session is in
    the list."""
    with sessions_of(url, **REQUIRED) as sessions:
        closed(client, sessions)
        for step in archive_job_without_spark.STEPS:
            killed = run_process(url, tmp_path, kill_at=step)
            assert killed.returncode == -signal.SIGKILL, step
            assert len(waiting(client)) == (0 if step == "noted" else 1), step
            assert ("archived" in state(client)) == (step == "noted"), step
            assert len(folders_in(tmp_path)) == (1 if step in ("whole", "noted") else 0), step
            assert len(list(tmp_path.glob(".tmp-*"))) == 1, step
        resumed = run_process(url, tmp_path, "--json")
        assert resumed.returncode == 0
        assert list(tmp_path.glob(".tmp-*")) == []
        [folder] = folders_in(tmp_path)
        assert [value for _, _, value in rows_in(folder)] == [0.0, 1.0, 2.0, 3.0, 4.0]
        written = manifest.read(folder, "run-1")
        assert written is not None
        assert state(client)["archived"] == written.checksum


@pytest.mark.usefixtures("without_spark")
def test_an_outage_of_redis_during_a_run_loses_nothing(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are in the archive, the error is one sentence, and the next run only has the session recorded."""
    with sessions_of(url) as sessions:
        closed(client, sessions)
        proxy = Proxy(url.removeprefix("unix://"))

        def run_job_and_disconnect(spec: Any, staging: Path) -> Iterator[Any]:
            for event in archive_job_without_spark.run_job(spec, staging):
                if isinstance(event, archive_spec.PassDone):
                    proxy.hold()
                yield event

        monkeypatch.setattr(spark_process, "run_job", run_job_and_disconnect)
        ran = archive(proxy.url, tmp_path, "--timeout-s", "1")
        assert ran.code == 69, ran
        assert len(ran.err.splitlines()) == 1
        proxy.release()
        proxy.close()
        assert len(waiting(client)) == 1
        assert len(folders_in(tmp_path)) == 1
        monkeypatch.setattr(spark_process, "run_job", None)  # not needed any more
        [done] = archive(url, tmp_path, "--json").json()["sessions"]
        assert done["outcome"] == "noted"
        assert waiting(client) == []


@pytest.mark.usefixtures("without_spark")
def test_a_full_disk_is_an_error_and_loses_nothing(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """No unfinished folder is in the archive; once there is room, the same command finishes."""
    with small_disk.mounted(tmp_path, "4k") as disk, sessions_of(url) as sessions:
        closed(client, sessions, bursts=200)
        commands.refused(archive(url, tmp_path), 73, "can't be written: the disk is full")
        assert folders_in(tmp_path) == []
        assert len(waiting(client)) == 1
        disk.remount("size=8m")
        assert archive(url, tmp_path).code == 0
        assert len(rows_in(folders_in(tmp_path)[0])) == 200


def test_a_run_that_can_not_begin_says_why(
    client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No supervisor, no folder, a folder that can't be made, no Java, no Spark."""
    commands.refused(archive(url, tmp_path), 69, "No supervisor is running")
    with sessions_of(url) as sessions:
        commands.refused(commands.run(url, "archive"), 78, "archive.path: it is empty")
        assert "0 sessions archived" in archive(url, tmp_path).out
        sessions.open("run-1", stream="rig").close()
        wait_until(lambda: waiting(client), what="a session that waits")
        file = tmp_path / "file"
        file.touch()
        commands.refused(archive(url, file / "below"), 73, "can't be written")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        commands.refused(archive(url, tmp_path), 78, "holds no bin/java that runs")
        monkeypatch.setitem(sys.modules, "pyspark", None)
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        commands.refused(
            archive(url, tmp_path), 69, "make install PACKAGES=spark, or: pip install 'rta-supervisor[archive]'"
        )
