"""What goes wrong while a part is added to an open session: disks, folders, Redis, other runs, damaged files."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_supervisor.embedded import server
from rta_wire import archive_spec, errors
from rta_writers.archive import job as archive_job
from rta_writers.connection import redis_client, retry
from tests.integration.archive import small_disk
from tests.integration.archive.archive_runs import archive, sessions_of, state
from tests.integration.archive.test_parts import closed_and_listed, folder_of, reported, stored, values, write
from tests.integration.archive.test_run import run_process
from tests.integration.writers.test_read_archive import read as read_rows
from tests.support import archive_job_without_spark, commands, samples, supervisors
from tests.support.waiting import wait_until


def write_noise(session: rta_writers.Session, count: int) -> None:
    """Samples that can't be compressed."""
    noise = np.random.default_rng(1).random(count)
    with rta_writers.BurstWriter(session.options, unit="noise") as writer:
        writer.samples(np.ones(count, np.uint32), samples.START_NS + np.arange(count), noise)


@pytest.mark.usefixtures("without_spark")
def test_a_full_or_read_only_disk_adds_no_part(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """Exit code 73 with the reason; parts that are there stay, and trimming learns nothing. Once there is room, the
    same command adds the part."""
    with small_disk.mounted(tmp_path, "256k") as disk, sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
        write(client, session, 5)
        assert archive(url, tmp_path).code == 0
        before = {path.name for path in folder_of(tmp_path).iterdir()}
        noted = state(client)["archivedUntil"]
        write_noise(session, 100_000)
        commands.refused(archive(url, tmp_path), 73, "can't be written: the disk is full")
        disk.remount("size=8m,ro")
        commands.refused(archive(url, tmp_path), 73, "can't be written: Read-only file system")
        assert {path.name for path in folder_of(tmp_path).iterdir()} == before
        assert state(client)["archivedUntil"] == noted
        disk.remount("rw")
        assert archive(url, tmp_path).code == 0
        assert [part.rows["samples"] for part in stored(tmp_path).parts] == [5, 100_000]


@pytest.mark.parametrize("lost_at", ["while it is read", "before it is noted"])
def test_redis_is_lost_while_a_part_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost_at: str) -> None:
    """Killed and started again with nothing in it: the run ends with 69. What was written by then is in the archive,
    the supervisor puts the session back, and the next run adds what comes after."""
    with (
        server.running(port=server.free_port()) as own_server,
        supervisors.running(own_server.url) as supervisor,
        redis_client.connect(own_server.url) as client,
    ):
        url = own_server.url
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        session = sessions.open("run-1", stream="rig")
        read_pages, outage_timeout_s = archive_job.read_pages, retry.OUTAGE_TIMEOUT_S

        def lose_and_read(stream_range: archive_job.StreamRange) -> Iterator[Any]:
            own_server.kill()
            monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.3)
            yield from read_pages(stream_range)

        def run_job_and_lose(spec: archive_spec.ArchiveSpec, staging: Path) -> Iterator[Any]:
            if lost_at == "while it is read":
                monkeypatch.setattr(archive_job, "read_pages", lose_and_read)
            for event in archive_job_without_spark.run_job(spec, staging):
                if isinstance(event, archive_spec.PassDone):
                    own_server.kill()
                yield event

        monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
        write(client, session, 5)
        assert archive(url, tmp_path).code == 0
        write(client, session, 5)
        wait_until(lambda: sessions.get("run-1").totals.samples == 10, what="the report")
        # Whoever lists sessions has the catalogue written first.
        assert [info.identity for info in sessions.list()] == ["run-1"]
        monkeypatch.setattr(spark_process, "run_job", run_job_and_lose)
        assert archive(url, tmp_path, "--timeout-s", "1").code == 69
        own_server.start()
        supervisor.wait_for_event("redis_made_whole")
        monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
        monkeypatch.setattr(archive_job, "read_pages", read_pages)
        monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", outage_timeout_s)
        write(client, sessions.open("run-1", stream="rig"), 5)
        ran = archive(url, tmp_path)
        assert ran.code == 0, ran
        kept = [5, 5] if lost_at == "while it is read" else [5, 5, 5]
        assert [part.rows["samples"] for part in stored(tmp_path).parts] == kept
        assert stored(tmp_path).damaged == {}


def test_two_runs_at_once(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process in the middle of a run ends with 75, and every sample is archived once."""
    write(client, session, 5)
    others: list[int | None] = []

    def run_job_beside_another(spec: archive_spec.ArchiveSpec, staging: Path) -> Iterator[Any]:
        for event in archive_job_without_spark.run_job(spec, staging):
            if isinstance(event, archive_spec.PassDone):
                others.append(run_process(url, tmp_path).returncode)
            yield event

    monkeypatch.setattr(spark_process, "run_job", run_job_beside_another)
    assert archive(url, tmp_path).code == 0
    assert others == [75]
    assert len(stored(tmp_path).parts) == 1
    assert len(values(tmp_path)) == 5


@pytest.mark.usefixtures("without_spark")
def test_a_flipped_bit_is_found_and_mended(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """With `--check-files`: the part is made anew while the stream has it; afterwards the run names the file."""
    for _ in range(2):
        write(client, session, 5)
        archive(url, tmp_path)
    content = [part.content for part in stored(tmp_path).parts]
    flip(folder_of(tmp_path) / stored(tmp_path).parts[0].files_of("samples")[0].name)
    assert archive(url, tmp_path).code == 0
    assert archive(url, tmp_path, "--check-files").code == 0
    assert len(values(tmp_path)) == 10
    assert [part.content for part in stored(tmp_path).parts] == content
    client.xtrim("stream:rig", maxlen=0)
    damaged = folder_of(tmp_path) / stored(tmp_path).parts[1].files_of("messages")[0].name
    flip(damaged)
    commands.refused(archive(url, tmp_path, "--check-files"), 65, f"{damaged.name} does not have the content")


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(
    ("number", "kept", "is_remade"), [(1, 100, True), (1, 25, False), (2, 15, False), (2, 20, True)]
)
def test_a_manifest_that_can_not_be_read(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, number: int, kept: int, is_remade: bool
) -> None:
    """The part is made anew where the stream still has all of it. Where it has some, the files stay and the run says
    so: they may be the only ones that have the rest."""
    for _ in range(3):
        write(client, session, 10)
        archive(url, tmp_path)
    before = stored(tmp_path).parts
    (folder_of(tmp_path) / f"part-0000{number}.json").write_text("{")
    client.xtrim("stream:rig", maxlen=kept, approximate=False)
    ran = archive(url, tmp_path, "--json")
    after = stored(tmp_path)
    if is_remade:
        assert ran.code == 0, ran
        assert [part.content for part in after.parts] == [part.content for part in before]
        assert [part.is_last for part in after.parts] == [False] * 3
    else:
        assert ran.code == 65
        [failed] = json.loads(ran.out)["sessions"]
        assert f"part-0000{number}.json" in failed["problem"]
        assert list(after.damaged) == [number]
    assert len(values(tmp_path)) == 30


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("is_closed", [False, True])
def test_the_manifest_of_the_last_part_can_not_be_read(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, is_closed: bool
) -> None:
    """It is made anew with what has come since, and the session goes on from there."""
    for _ in range(2):
        write(client, session, 10)
        archive(url, tmp_path)
    write(client, session, 5)
    (folder_of(tmp_path) / "part-00002.json").write_text("{")
    if is_closed:
        closed_and_listed(client, session)
    assert archive(url, tmp_path).code == 0
    assert [part.rows["samples"] for part in stored(tmp_path).parts] == [10, 15]
    assert (stored(tmp_path).whole is not None) is is_closed
    assert len(values(tmp_path)) == 25
    if not is_closed:
        assert state(client)["archivedUntil"].split()[0] == stored(tmp_path).parts[-1].until


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(("cut", "unreadable"), [((), (1,)), ((1,), (2,)), ((2,), (1,)), ((), (1, 3))])
def test_parts_that_are_made_anew_miss_nothing(
    client: redis.Redis,
    url: str,
    sessions: rta_writers.SessionClient,
    tmp_path: Path,
    cut: tuple[int, ...],
    unreadable: tuple[int, ...],
) -> None:
    """Samples of other parts, damaged ones too, and those that come behind them are not missing."""
    session = sessions.open("run-1", stream="rig")
    parts = max(2, *unreadable)
    for _ in range(parts):
        write(client, session, 10)
        archive(url, tmp_path)
    write(client, session, 5)
    wait_until(lambda: reported(sessions, 10 * parts + 5), what="the totals")
    for number in cut:
        [path] = folder_of(tmp_path).glob(f"part-0000{number}-*.parquet")
        path.write_bytes(path.read_bytes()[:-1])
    for number in unreadable:
        (folder_of(tmp_path) / f"part-0000{number}.json").write_text("{")
    assert archive(url, tmp_path).code == 0
    after = stored(tmp_path)
    assert not after.damaged
    assert [part.missing for part in after.parts] == [()] * len(after.parts)
    assert len(values(tmp_path)) == 10 * parts + 5


JOB_WITHOUT_SPARK = """
import pathlib, sys
import msgspec
from rta_wire import archive_spec, errors
from tests.support import archive_job_without_spark

spec = msgspec.json.decode(pathlib.Path(sys.argv[-1]).read_bytes(), type=archive_spec.ArchiveSpec)
for event in archive_job_without_spark.run_job(spec, pathlib.Path(spec.folder)):
    print(msgspec.json.encode(event).decode(), flush=True)
"""


def test_a_run_with_several_jobs(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged part and a new one are two jobs, each a process of its own, in one run."""
    write(client, session, 5)
    with monkeypatch.context() as within:
        within.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
        assert archive(url, tmp_path).code == 0
    (folder_of(tmp_path) / stored(tmp_path).parts[0].files[0].name).unlink()
    write(client, session, 5)
    monkeypatch.setattr(spark_process, "JOB", ("-c", JOB_WITHOUT_SPARK))
    ran = archive(url, tmp_path)
    assert ran.code == 0, ran
    assert len(stored(tmp_path).parts) == 2
    assert len(values(tmp_path)) == 10


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("lost", [0, 10])
def test_all_that_followed_the_last_part_was_trimmed_before_the_close(
    client: redis.Redis,
    url: str,
    sessions: rta_writers.SessionClient,
    session: rta_writers.Session,
    tmp_path: Path,
    lost: int,
) -> None:
    """The last part has no entries and says what is missing, if samples were among them: so does the manifest. A read
    knows that nothing follows, though the stream goes on with other sessions."""
    write(client, session, 5)
    archive(url, tmp_path)
    if lost:
        write(client, session, lost)
        wait_until(lambda: reported(sessions, 5 + lost), what="the report")
    closed_and_listed(client, session)
    write(client, sessions.open("run-2", stream="rig"), 5)
    client.xtrim("stream:rig", maxlen=2, approximate=False)
    [done] = archive(url, tmp_path, "--session", "run-1", "--json").json()["sessions"]
    assert (done["samples"], done["complete"]) == (5, not lost)
    [_, last] = stored(tmp_path).parts
    assert (last.is_last, last.entries, len(last.gaps), bool(last.missing)) == (True, 0, bool(lost), bool(lost))
    whole = stored(tmp_path).whole
    assert whole is not None
    assert (whole.complete, whole.gaps) == (not lost, last.gaps)
    client.delete("sessions:run-1")
    assert len(read_rows(url, tmp_path, fail_on_data_loss=not lost)) == 5
    if lost:
        with pytest.raises(errors.StreamGap, match=f"{lost} of {5 + lost} samples"):
            read_rows(url, tmp_path)


@pytest.mark.usefixtures("without_spark")
def test_all_that_followed_the_last_part_was_trimmed(
    client: redis.Redis, url: str, sessions: rta_writers.SessionClient, session: rta_writers.Session, tmp_path: Path
) -> None:
    """Of an open session: a part without entries has the gap, once, and the next part goes on behind it."""
    write(client, session, 5)
    archive(url, tmp_path)
    write(client, session, 10)
    wait_until(lambda: reported(sessions, 15), what="the report")
    client.xtrim("stream:rig", maxlen=0, approximate=False)
    assert "part 2: 0 samples" in archive(url, tmp_path).out
    gap = stored(tmp_path).parts[1].gaps[0]
    assert gap.after == stored(tmp_path).parts[0].until
    assert gap.entries is not None
    assert gap.entries >= 10
    write(client, sessions.open("run-2", stream="rig"), 5)
    client.xtrim("stream:rig", maxlen=0, approximate=False)
    assert archive(url, tmp_path, "--session", "run-1", "--json").json() == {"sessions": []}
    write(client, session, 5)
    archive(url, tmp_path, "--session", "run-1")
    assert [(part.rows["samples"], len(part.gaps)) for part in stored(tmp_path).parts] == [(5, 0), (0, 1), (5, 0)]


@pytest.mark.usefixtures("without_spark")
def test_a_run_is_killed_while_it_mends_a_closed_session(
    client: redis.Redis, url: str, session: rta_writers.Session, tmp_path: Path
) -> None:
    """Behind the new part and before the manifest of the whole: the next run has that name the new files."""
    write(client, session, 5)
    archive(url, tmp_path)
    closed_and_listed(client, session)
    archive(url, tmp_path)
    (folder_of(tmp_path) / stored(tmp_path).parts[0].files[0].name).unlink()
    killed = run_process(url, tmp_path, "--session", "run-1", kill_at="part")
    assert killed.returncode == -signal.SIGKILL
    assert archive(url, tmp_path, "--session", "run-1").code == 0
    whole = stored(tmp_path).whole
    assert whole is not None
    assert {file.name for file in whole.files} == {path.name for path in folder_of(tmp_path).glob("*.parquet")}
    assert stored(tmp_path).damaged == {}
