"""What goes wrong while a part is added to an open session: disks, folders, Redis, other runs, damaged files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_supervisor.embedded import server
from rta_wire import archive_spec
from rta_writers.archive import job as archive_job
from rta_writers.connection import redis_client
from tests.integration.archive import small_disk
from tests.integration.archive.archive_runs import archive, sessions_of, state
from tests.integration.archive.test_parts import folder_of, stored, values, write
from tests.integration.archive.test_run import run_process
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
        read_pages = archive_job.read_pages

        def lose_and_read(stream_range: archive_job.StreamRange) -> Iterator[Any]:
            own_server.kill()
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
        monkeypatch.setattr(spark_process, "run_job", run_job_and_lose)
        assert archive(url, tmp_path, "--timeout-s", "1").code == 69
        own_server.start()
        supervisor.wait_for_event("redis_made_whole")
        monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
        monkeypatch.setattr(archive_job, "read_pages", read_pages)
        write(client, sessions.open("run-1", stream="rig"), 5)
        ran = archive(url, tmp_path)
        assert ran.code == 0, ran
        kept = [5, 5] if lost_at == "while it is read" else [5, 5, 5]
        assert [part.rows["samples"] for part in stored(tmp_path).parts] == kept
        assert stored(tmp_path).damaged == {}


def test_two_runs_at_once(client: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process in the middle of a run ends with 75, and every sample is archived once."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
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
def test_a_flipped_bit_is_found_and_mended(client: redis.Redis, url: str, tmp_path: Path) -> None:
    """With `--check-files`: the part is made anew while the stream has it; afterwards the run names the file."""
    with sessions_of(url) as sessions:
        session = sessions.open("run-1", stream="rig")
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


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))
