"""Rows that wait beside the stream until their epoch is committed."""

from typing import Any

import msgspec
import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.options.target import Target
from rta_writers.options.write import GROUP_ROWS, WriteOptions
from rta_writers.write import commit
from rta_writers.write.delivery import staged_delivery
from rta_writers.write.task import Task
from rta_writers.write.task_result import TaskResult
from tests.integration.writers.tasks import expected, long, run
from tests.support import stream_content


def stage(target: Target, *rows: int, epoch: int = 0, **options: str) -> tuple[WriteOptions, list[TaskResult]]:
    settings, results = WriteOptions.parse({**target.options(), "delivery": "staged", **options}), []
    first = 0
    for partition, count in enumerate(rows):
        batches = [long(count, first=first)]
        results.append(run(settings, *batches, unit=f"job/{partition}", epoch=epoch))
        first += count
    return settings, results


def waiting_keys(client: redis.Redis) -> list[bytes]:
    return list(client.scan_iter(match="rtas:sg:*"))


def test_staged_rows_appear_with_the_commit(client: redis.Redis, target: Target) -> None:
    """Before the commit no row is in the stream, after it every row is, and no staged key is left."""
    settings, results = stage(target, 1000, 2000, groupRows="300")
    assert client.exists("stream:rig") == 0
    commit.commit(settings, results, epoch=0)
    assert stream_content.samples(client, "rig", 7) == expected(3000)
    assert waiting_keys(client) == []


def test_a_repeated_commit_with_other_rows_adds_nothing(client: redis.Redis, target: Target) -> None:
    """The first commit of an epoch decides, whatever a replay computes, and when its manifest has expired too."""
    manifest = target.keys.staging_manifest("rig", 7, "job", 0)
    for rows in ((1000, 2000), (10, 20, 30), (40, 50, 60)):
        settings, results = stage(target, *rows)
        commit.commit(settings, results, epoch=0)
        if rows == (10, 20, 30):
            assert client.delete(manifest) == 1
    assert stream_content.samples(client, "rig", 7) == expected(3000)
    assert waiting_keys(client) == []
    settings, results = stage(target, 5, epoch=1)
    commit.commit(settings, results, epoch=1)
    assert len(stream_content.samples(client, "rig", 7)) == 3005


@pytest.mark.parametrize("other_rows", [(7, 8, 9), ()])
@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_a_commit_that_was_cut_off_goes_on_with_what_it_began(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, target: Target, moves: int, other_rows: tuple[int, ...]
) -> None:
    """A commit dies between any two moves; a replay that staged other rows, or none, completes it without them. What
    was staged is not removed with the attempt that failed."""
    monkeypatch.setattr(staged_delivery, "BURSTS_PER_MOVE", 2)

    class Killed(Exception):
        """The driver is gone."""

    settings, results = stage(target, 30_000, 30_000)
    read_bursts = staged_delivery._read_bursts
    moved: list[int] = []

    def killed_later(*args: Any) -> Any:
        if len(moved) == moves:
            raise Killed
        moved.append(1)
        return read_bursts(*args)

    with monkeypatch.context() as patch:
        patch.setattr(staged_delivery, "_read_bursts", killed_later)
        with pytest.raises(Killed):
            commit.commit(settings, results, epoch=0)
    # Spark does that where a commit fails and its driver lives on.
    commit.abort(settings, results)
    # Another release may move more at a time.
    monkeypatch.setattr(staged_delivery, "BURSTS_PER_MOVE", 3)
    settings, other_results = stage(target, *other_rows)
    commit.commit(settings, other_results or [TaskResult("job/0", 0)], epoch=0)
    assert stream_content.samples(client, "rig", 7) == expected(60_000)
    assert waiting_keys(client) == []


def test_of_two_committers_the_first_decides(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, target: Target
) -> None:
    """Another driver wrote its manifest after we had looked for one: its attempts are moved, not ours."""
    settings, theirs = stage(target, 1000, 2000)
    _, ours = stage(target, 50)
    manifest = target.keys.staging_manifest("rig", 7, "job", 0)
    attempts = [part.staged for result in theirs for part in result.shares]
    execute = connection_pipeline.Pipeline.execute

    def execute_too_early(self: connection_pipeline.Pipeline, commands: Any) -> list[Any]:
        if commands == [("GET", manifest)] and not client.exists(manifest):
            client.set(manifest, msgspec.json.encode(attempts), ex=60)
            return [None]
        return execute(self, commands)

    monkeypatch.setattr(connection_pipeline.Pipeline, "execute", execute_too_early)
    commit.commit(settings, ours, epoch=0)
    assert stream_content.samples(client, "rig", 7) == expected(3000)


def test_staged_rows_that_expired_are_reported(client: redis.Redis, target: Target) -> None:
    """A commit whose staged bursts have expired fails: it does not write fewer rows."""
    settings, results = stage(target, 1000)
    client.delete(*waiting_keys(client))
    with pytest.raises(errors.StagedLost, match="Raise option 'stagedTtlS'"):
        commit.commit(settings, results, epoch=0)


def test_what_a_failed_attempt_staged_is_removed(client: redis.Redis, target: Target) -> None:
    """An attempt that failed leaves no staged key that would take memory until its TTL."""
    settings = WriteOptions.parse({**target.options(), "delivery": "staged"})
    task = Task(settings, long(1).schema, unit="job/0", epoch=0)
    task.write(long(GROUP_ROWS))
    task.flush()
    assert len(waiting_keys(client)) == 1
    task.abort()
    task.close()
    assert waiting_keys(client) == []


def test_what_an_epoch_staged_that_is_given_up_is_removed(client: redis.Redis, target: Target) -> None:
    """Aborting an epoch removes the staged keys of all its tasks, and nothing of it is in the stream."""
    settings, results = stage(target, 10, 20)
    assert len(waiting_keys(client)) == 2
    commit.abort(settings, [*results, TaskResult("job/2", 0)])
    assert waiting_keys(client) == []
    assert client.exists("stream:rig") == 0


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_program_whose_commit_failed_writes_its_epoch_again(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, target: Target, fails_at: int
) -> None:
    """Redis was full in the middle of `close`: another writer of the same unit and epoch completes it."""
    monkeypatch.setattr(staged_delivery, "BURSTS_PER_MOVE", 1)
    options = {**target.options(), "delivery": "staged", "groupRows": "10"}
    read_bursts, moved = staged_delivery._read_bursts, []

    def fail_once(*args: Any) -> Any:
        moved.append(args)
        if len(moved) == fails_at + 1:
            raise errors.RedisFull(url=target.redis_url, reason="it has no memory left")
        return read_bursts(*args)

    monkeypatch.setattr(staged_delivery, "_read_bursts", fail_once)
    for is_first in (True, False):
        writer = rta_writers.BurstWriter(options, unit="recorder")
        writer.write(long(40))
        if is_first:
            with pytest.raises(errors.RedisFull):
                writer.close()
        else:
            writer.close()
    assert stream_content.samples(client, "rig", 7) == expected(40)
    assert waiting_keys(client) == []
