"""Sessions that are archived while they are open: part by part, without a hole, whatever ends a run."""

import functools
import json
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import redis
import structlog

import rta_writers
from rta_supervisor.archive import folders, manifest, scheduled_run, spark_process
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands as commands_module
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, entry_ids
from rta_wire.archive.folder import SessionArchive
from rta_writers.archive import job as archive_job
from tests.integration.archive.archive_runs import REQUIRED, archive, sessions_of, state
from tests.integration.archive.test_run import rows_in, run_process
from tests.support import archive_job_without_spark, commands, control
from tests.support.archives import waiting
from tests.support.waiting import wait_until


def stored(path: Path, identity: str = "run-1") -> SessionArchive:
    """What the archive has of the only session in it."""
    [folder] = path.glob("date=*/source=*/session=*")
    return manifest.read_session(folder, identity)


def stored_nothing(path: Path) -> bool:
    return not list(path.iterdir())


def folder_of(path: Path) -> Path:
    [folder] = path.glob("date=*/source=*/session=*")
    return folder


def values(path: Path) -> list[float]:
    return [value for _, _, value in rows_in(folder_of(path))]


def write(client: redis.Redis, session: rta_writers.Session, count: int) -> None:
    """More samples of a session, by a unit that did not write before."""
    control.write(client, session, count, unit=uuid.uuid4().hex)


def reported(sessions: rta_writers.SessionClient, samples: int, identity: str = "run-1") -> bool:
    return sessions.get(identity).totals.samples == samples


def closed_and_listed(client: redis.Redis, session: rta_writers.Session) -> None:
    session.close()
    wait_until(lambda: waiting(client), what="the session on the list")


@pytest.mark.usefixtures("without_spark")
def test_an_open_session_is_archived_in_parts(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """Parts follow each other without overlap or hole and are never rewritten; the close adds the last one and a
    manifest of the whole, with the checksum of a session that was archived at once."""
    files: dict[Path, int] = {}
    for number in (1, 2, 3):
        write(client, session, 5)
        [done] = archive(url, tmp_path / "parts", "--json").json()["sessions"]
        assert (done["outcome"], done["part"], done["samples"], done["complete"]) == ("part", number, 5, True)
        assert archive(url, tmp_path / "parts", "--json").json() == {"sessions": []}
        assert all(path.stat().st_mtime_ns == changed for path, changed in files.items())
        files = {path: path.stat().st_mtime_ns for path in folder_of(tmp_path / "parts").glob("*-*")}
        parts = stored(tmp_path / "parts").parts
        assert [part.number for part in parts] == list(range(1, number + 1))
        assert [part.after for part in parts[1:]] == [part.until for part in parts[:-1]]
        assert state(client)["archivedUntil"].split()[0] == parts[-1].until
    assert len(values(tmp_path / "parts")) == 15
    write(client, session, 2)
    closed_and_listed(client, session)
    [done] = archive(url, tmp_path / "parts", "--json").json()["sessions"]
    assert (done["outcome"], done["samples"], done["complete"]) == ("archived", 17, True)
    assert all(path.stat().st_mtime_ns == changed for path, changed in files.items())
    assert waiting(client) == []
    whole = manifest.read(folder_of(tmp_path / "parts"), "run-1")
    assert whole is not None
    assert (whole.parts, whole.rows["samples"]) == (4, 17)
    [at_once] = archive(url, tmp_path / "once", "--session", "run-1", "--json").json()["sessions"]
    assert at_once["checksum"] == whole.checksum
    assert rows_in(folder_of(tmp_path / "once")) == rows_in(folder_of(tmp_path / "parts"))


@pytest.mark.usefixtures("without_spark")
def test_a_dry_run_says_what_is_new(
    client: redis.Redis, url: str, session: rta_writers.Session, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Samples that no part has; a session without anything new is not listed. It writes nothing."""

    def planned() -> list[tuple[str, int]]:
        found = archive(url, tmp_path, "--dry-run", "--json").json()["sessions"]
        return [(one["state"], one["samples"]) for one in found]

    write(client, session, 5)
    wait_until(lambda: reported(sessions, 5), what="the report")
    assert planned() == [("open", 5)]
    assert stored_nothing(tmp_path)
    archive(url, tmp_path)
    assert planned() == []
    write(client, session, 2)
    wait_until(lambda: reported(sessions, 7), what="the report")
    assert planned() == [("open", 2)]
    closed_and_listed(client, session)
    assert planned() == [("closed", 2)]


def test_a_run_that_is_killed_at_any_step_leaves_no_hole(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Killed at each step of a part, and then of the close: the next run goes on, and every sample is there once."""
    with sessions_of(url, **REQUIRED) as sessions:
        session = sessions.open("run-1", stream="rig")
        write(client, session, 3)
        assert run_process(url, tmp_path).returncode == 0
        for step in archive_job_without_spark.STEPS:
            write(client, session, 1)
            if step == "whole":
                continue
            killed = run_process(url, tmp_path, kill_at=step)
            assert killed.returncode == -signal.SIGKILL, step
            assert stored(tmp_path).damaged == {}, step
        closed_and_listed(client, session)
        for step in ("moved", "part", "whole"):
            killed = run_process(url, tmp_path, kill_at=step)
            assert killed.returncode == -signal.SIGKILL, step
        assert run_process(url, tmp_path).returncode == 0
        whole = manifest.read(folder_of(tmp_path), "run-1")
        assert whole is not None
        assert (whole.complete, whole.rows["samples"]) == (True, 3 + len(archive_job_without_spark.STEPS))
        assert len(values(tmp_path)) == whole.rows["samples"]
        named = {file.name for file in whole.files}
        assert {path.name for path in folder_of(tmp_path).glob("*.parquet")} == named
        assert waiting(client) == []


@pytest.mark.usefixtures("without_spark")
def test_what_a_part_has_may_be_trimmed(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """With `archive.required` nothing of an open session goes before it is in a verified part, and then it does."""
    settings = {
        **REQUIRED,
        "RTA_TRIM__MAX_ENTRIES": "3",
        "RTA_TRIM__MIN_RETENTION_S": "0",
        "RTA_TRIM__EXACT": "true",
        "RTA_TRIM__EVERY_S": "0.2",
        "RTA_TRIM__ENTRY_S": "0",
        "RTA_TRIM__ENTRY_BYTES": "0",
    }
    with sessions_of(url, **settings) as sessions:
        session = sessions.open("run-1", stream="rig")
        idle = sessions.open("idle", stream="rig")
        write(client, session, 20)
        wait_until(lambda: reported(sessions, 20), what="the report")
        assert client.xlen("stream:rig") > 20
        assert archive(url, tmp_path).code == 0
        wait_until(lambda: client.xlen("stream:rig") <= 3, what="trimming what is archived")
        write(client, session, 20)
        wait_until(lambda: reported(sessions, 40), what="the report")
        assert client.xlen("stream:rig") >= 20
        archive(url, tmp_path)
        idle.close()
        closed_and_listed(client, session)
        wait_until(lambda: len(waiting(client)) == 2, what="both on the list")
        assert {entry_ids.parse(one.position) > (0, 0) for one in waiting(client)} == {True}
        archive(url, tmp_path)
        [folder] = tmp_path.glob("date=*/source=*/session=run-1-*")
        whole = manifest.read(folder, "run-1")
        assert whole is not None
        assert (whole.complete, whole.rows["samples"]) == (True, 40)
        assert waiting(client) == []


@pytest.mark.usefixtures("without_spark")
def test_a_damaged_part_is_named_and_archived_anew(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """While the stream has its entries. Afterwards the run says which file is damaged, and adds no part behind it."""
    for _ in range(3):
        write(client, session, 4)
        archive(url, tmp_path)
    before = stored(tmp_path)
    folder = folder_of(tmp_path)
    damaged = folder / before.parts[1].files_of("samples")[0].name
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert list(stored(tmp_path).damaged) == [2]
    write(client, session, 4)
    ran = archive(url, tmp_path)
    assert ran.code == 0, ran
    after = stored(tmp_path)
    assert after.damaged == {}
    assert [part.content for part in after.parts[:3]] == [part.content for part in before.parts]
    assert [part.checksum for part in after.parts][0::2][:1] == [before.parts[0].checksum]
    assert len(values(tmp_path)) == 16
    assert not damaged.exists()
    (folder / "part-00001.json").write_text("{")
    assert archive(url, tmp_path).code == 0
    assert stored(tmp_path).damaged == {}
    assert stored(tmp_path).parts[0].content == before.parts[0].content
    client.xtrim("stream:rig", maxlen=1, approximate=False)
    lost = folder / after.parts[2].files_of("samples")[0].name
    lost.unlink()
    write(client, session, 4)
    commands.refused(archive(url, tmp_path), 65, f"{lost.name} is gone")
    assert len(stored(tmp_path).parts) == 4


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("state_of_end", ["closed", "abandoned"])
def test_a_session_that_ends_during_a_run(
    client: redis.Redis,
    url: str,
    session: rta_writers.Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state_of_end: str,
) -> None:
    """Its part stays, and the next run adds the rest and the manifest of the whole."""
    write(client, session, 5)

    def run_job_and_close(spec: Any, staging: Path) -> Iterator[Any]:
        for event in archive_job_without_spark.run_job(spec, staging):
            if isinstance(event, archive_spec.PassDone):
                write(client, session, 3)
                session.close(state=state_of_end)
            yield event

    monkeypatch.setattr(spark_process, "run_job", run_job_and_close)
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["outcome"], done["samples"]) == ("part", 5)
    assert "closed meanwhile" in done["problem"]
    wait_until(lambda: waiting(client), what="the session on the list")
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["outcome"], done["samples"], done["complete"]) == ("archived", 8, True)
    whole = json.loads((folder_of(tmp_path) / "manifest.json").read_text())
    assert (whole["state"], whole["parts"]) == (state_of_end, 2)


@pytest.mark.usefixtures("without_spark")
def test_known_gaps_are_in_the_manifest(
    client: redis.Redis, url: str, session: rta_writers.Session, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """Entries that are trimmed between two parts are a gap of the second one, with their number."""
    write(client, session, 5)
    archive(url, tmp_path)
    write(client, session, 10)
    wait_until(lambda: reported(sessions, 15), what="the report")
    client.xtrim("stream:rig", maxlen=4, approximate=False)
    ran = archive(url, tmp_path)
    assert "it lacks entries between" in ran.err
    part = stored(tmp_path).parts[1]
    [gap] = part.gaps
    assert gap.after == part.after
    assert gap.entries is not None
    assert gap.entries >= 15 - 5 - part.rows["samples"] > 0
    write(client, session, 2)
    wait_until(lambda: reported(sessions, 17), what="the report")
    commands.refused(archive(url, tmp_path, "--refuse-incomplete"), 65, "it lacks entries between")
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["part"], done["complete"], done["problem"]) == (3, True, ""), "what is said once is not said again"
    write(client, session, 5)
    wait_until(lambda: reported(sessions, 22), what="the report")
    client.xtrim("stream:rig", maxlen=2, approximate=False)
    assert "it lacks entries between" in archive(url, tmp_path).err
    further = stored(tmp_path).parts[3].gaps
    closed_and_listed(client, session)
    archive(url, tmp_path)
    whole = manifest.read(folder_of(tmp_path), "run-1")
    assert whole is not None
    assert (whole.complete, whole.gaps) == (False, (gap, *further))


@pytest.mark.usefixtures("without_spark")
def test_a_run_before_the_first_sample(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """Its part says where the session begins, and has no rows. The next one misses nothing."""
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["part"], done["samples"], done["complete"]) == (1, 0, True)
    assert archive(url, tmp_path, "--json").json() == {"sessions": []}
    assert state(client)["archivedUntil"]
    write(client, session, 5)
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["part"], done["samples"], done["complete"]) == (2, 5, True)
    closed_and_listed(client, session)
    [done] = archive(url, tmp_path, "--json").json()["sessions"]
    assert (done["outcome"], done["samples"], done["complete"]) == ("archived", 5, True)


def run_job_between(change: Callable[[], object]) -> Callable[[Any, Path], Iterator[Any]]:
    """The archive job, with something done to the stream between its two reads."""

    def run_job(spec: archive_spec.ArchiveSpec, _staging: Path) -> Iterator[Any]:
        for number, one_pass in enumerate(spec.passes):
            written: list[archive_job.Files] = []

            def on_written(files: archive_job.Files, written: list[archive_job.Files] = written) -> None:
                written.append(files)
                change()

            results = archive_job.run_pass(lambda ranges, function: list(function(ranges)), spec, one_pass, on_written)
            yield archive_spec.PassWritten(number, written[0])
            yield archive_spec.PassDone(number, tuple(results))

    return run_job


def test_a_stream_that_is_trimmed_all_the_time_is_archived(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that go between the two reads of a run are in its part, all of them or some. Where others are missing or
    changed, or the stream is gone, nothing is put into the archive."""

    def delete_in_the_middle() -> None:
        entries: Any = client.xrange("stream:rig")
        client.xdel("stream:rig", entries[len(entries) // 2][0])

    for number, kept in enumerate((4, 1, 0), 1):
        write(client, session, 10)
        trim = functools.partial(client.xtrim, "stream:rig", maxlen=kept, approximate=False)
        monkeypatch.setattr(spark_process, "run_job", run_job_between(trim))
        [done] = archive(url, tmp_path, "--json").json()["sessions"]
        assert (done["outcome"], done["part"], done["samples"], done["complete"]) == ("part", number, 10, True)
    write(client, session, 10)
    lose = functools.partial(client.delete, "stream:rig")
    for change in (delete_in_the_middle, lose):
        monkeypatch.setattr(spark_process, "run_job", run_job_between(change))
        commands.refused(archive(url, tmp_path), 65, "they were made of")
    assert len(stored(tmp_path).parts) == 3
    assert len(values(tmp_path)) == 30


@pytest.mark.usefixtures("without_spark")
def test_a_folder_that_can_not_be_written_changes_nothing(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """The session folder is a file: exit code 73, and nothing is noted. The same command goes on once it is mended."""
    write(client, session, 5)
    archive(url, tmp_path)
    write(client, session, 5)
    noted = state(client)["archivedUntil"]
    folder = folder_of(tmp_path)
    kept = folder.rename(tmp_path / "kept")
    folder.symlink_to(tmp_path / "nowhere" / "else")
    commands.refused(archive(url, tmp_path), 73, "can't be written")
    assert state(client)["archivedUntil"] == noted
    folder.unlink()
    kept.rename(folder)
    assert archive(url, tmp_path).code == 0
    assert [part.rows["samples"] for part in stored(tmp_path).parts] == [5, 5]


@pytest.mark.usefixtures("without_spark")
def test_files_of_parts_hold_what_belongs_to_the_samples(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """A table of messages stands beside the samples, and a glob of today finds the samples of all parts."""
    for _ in range(2):
        write(client, session, 2)
        archive(url, tmp_path)
    folder = folder_of(tmp_path)
    assert len(list(folder.glob("part-*.parquet"))) == 2
    [first, _] = sorted(folder.glob("messages-*.parquet"))
    rows = pq.read_table(first).to_pylist()
    assert [(row["kind"], row["samples"], row["sample_type"]) for row in rows] == [("timestamped", 1, "double")] * 2
    assert all(entry_ids.is_after(f"{row['entry_ms']}-{row['entry_seq']}", "0-0") for row in rows)


@pytest.mark.usefixtures("without_spark")
def test_sessions_show_says_where_each_part_is(
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder, and below it a line for each part with its entries. A part that is damaged is called so."""
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(tmp_path / "catalogue.sqlite"))
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        for _ in range(2):
            write(client, session, 3)
            archive(url, tmp_path / "archive")
        shown = commands.run(url, "sessions", "show", "run-1", "--json").json()
        places = [(place["kind"], Path(place["location"]).name, place["first_id"]) for place in shown["places"]]
        parts = stored(tmp_path / "archive").parts
        assert [place for place in places if place[0] == "part"] == [
            ("part", f"part-0000{part.number}.json", part.first_id) for part in parts
        ]
        assert [kind for kind, _, _ in places].count("files") == 1
        (folder_of(tmp_path / "archive") / parts[0].files[0].name).unlink()
        (folder_of(tmp_path / "archive") / "part-00002.json").write_text("{")
        shown = commands.run(url, "sessions", "show", "run-1", "--json").json()
        damaged = [
            (Path(place["location"]).name, place["entries"])
            for place in shown["places"]
            if place["kind"] == "damaged part"
        ]
        assert damaged == [("part-00001.json", parts[0].entries), ("part-00002.json", 0)]


IN_THIS_PROCESS = """
from rta_supervisor.archive import scheduled_run, spark_process
from tests.support import archive_job_without_spark
spark_process.run_job = archive_job_without_spark.run_job
raise SystemExit(scheduled_run.main())
"""


async def test_a_supervisor_starts_runs_itself(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a process of its own with the settings of the supervisor; without our turn there is none."""
    monkeypatch.setattr(scheduled_run, "COMMAND", (sys.executable, "-c", IN_THIS_PROCESS))
    environment = {"RTA_ARCHIVE__PATH": str(tmp_path), "RTA_ARCHIVE__EVERY_S": "60"}
    config = settings.load(None, environment, {"redis.url": url})
    write(client, session, 5)
    link = Link(config.redis)
    duty = scheduled_run.ScheduledArchive(link, config)
    await duty.run_once(None)
    assert stored_nothing(tmp_path)
    with structlog.testing.capture_logs() as events:
        await duty.run_once(commands_module.FOREVER)
    assert [(event["event"], event["samples"]) for event in events] == [("archive_done", 5)]
    assert stored(tmp_path).parts[0].rows["samples"] == 5
    with folders.staging_folder(tmp_path), structlog.testing.capture_logs() as events:
        await duty.run_once(commands_module.FOREVER)
    assert [event["event"] for event in events] == ["archive_busy"]
    await link.close()
