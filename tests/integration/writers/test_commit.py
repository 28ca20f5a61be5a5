"""The end of an epoch: what a commit checks, which sessions its rows named, and what it reports and waits for."""

from typing import Any

import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors, keys
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write import commit, progress, task
from rta_writers.write.result import TaskResult
from rta_writers.write.task import Task
from tests.integration.writers.tasks import START_NS, long, run, write
from tests.support import stream_content
from tests.support.control import folded
from tests.support.waiting import wait_until


def test_rows_that_are_gone_by_the_commit_fail_it(client: redis.Redis, target: Target) -> None:
    """Redis lost what a task had written before the epoch was over: that is no success."""
    settings, first = write(target, long(30), unit="job/0")
    second = run(settings, long(20), unit="job/1")
    commit.commit(settings, [first, second], epoch=0)
    client.hdel(target.keys.marks("rig", 7), "job/1")
    with pytest.raises(errors.AppendGap, match=r"'job/1' .* stands at row 0 of epoch 0: going on at row 20"):
        commit.commit(settings, [first, second], epoch=0)


def test_a_partition_that_vanished_is_found_at_the_commit(target: Target) -> None:
    """Rows of an attempt with more partitions stand there: the commit of one with fewer fails."""
    for partition in range(3):
        write(target, long(10, first=partition * 10), unit=f"job/{partition}")
    settings, first = write(target, long(10), unit="job/0")
    _, second = write(target, long(10, first=10), unit="job/1")
    with pytest.raises(errors.RowsChanged, match=r"Unit 'job/2'.*10 rows of that partition stand there"):
        commit.commit(settings, [first, second], epoch=0)


def test_a_session_that_a_replay_does_not_name_is_missed(sessions: rta_writers.SessionClient) -> None:
    """The first attempt wrote to three sessions; a replay in another run of the driver names none or two of them."""
    first = pa.record_batch({"session": ["a", "b", "c"], "channel": [1, 1, 1], "time": [1, 2, 3], "value": [1.0] * 3})
    killed = rta_writers.sessions(sessions, stream="rig")
    run(WriteOptions.parse(killed.options), first, unit="job/0", epoch=4)
    killed._heartbeats.request_stop()
    with rta_writers.sessions(sessions, stream="rig") as group:
        settings = WriteOptions.parse(group.options)
        kept = run(settings, first.slice(0, 2), unit="job/0", epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'c'"):
            commit.commit(settings, [kept], epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'a'"):
            commit.commit(settings, [TaskResult("job/0", 4)], epoch=4)
        commit.commit(settings, [TaskResult("job/0", 5)], epoch=5)
        commit.commit(settings, [run(settings, first, unit="job/0", epoch=4)], epoch=4)


def test_rows_name_their_sessions(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Sessions are opened on first sight, rows are counted for each alone, and a retry changes nothing."""
    monkeypatch.setattr(task, "CONNECTIONS_MAX", 2)
    with rta_writers.sessions(sessions, stream="rig", type="lap") as group:
        settings = WriteOptions.parse(group.options)
        run(settings, long(4000, session=True))
        run(settings, long(3000, session=True), long(3000, first=3000, session=True))
        assert group.identities() == ["car-0", "car-1", "car-2"]
    for number, identity in enumerate(sorted(group.ended)):
        place: Any = client.hget(f"sessions:{identity}", "streamSessionId")
        found = stream_content.samples(client, "rig", int(place))
        assert found == sorted((n % 7, START_NS + n, n / 4) for n in range(6000) if n % 3 == number)
        assert (group.ended[identity].state, group.ended[identity].totals.samples) == ("closed", 2000)


def test_a_null_session_is_refused(url: str) -> None:
    """A row that belongs nowhere fails its task."""
    batch = pa.record_batch({"channel": [1], "time": [1], "value": [1.0], "session": pa.array([None], pa.string())})
    with pytest.raises(errors.BadSamples, match="the session is null"):
        run(WriteOptions.parse({"redisUrl": url, "stream": "rig"}), batch)


def test_a_running_task_reports_every_second(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """The session's time range moves while the task is still running."""
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)
    session = sessions.session("run-1", stream="rig")
    settings = WriteOptions.parse(session.options)
    writing = Task(settings, long(1).schema, unit="job/0", epoch=0)
    writing.write(long(1000))
    writing.write(long(1000, first=1000))
    end: Any = wait_until(lambda: client.hget("sessions:run-1", keys.T_END), what="a time range")
    assert int(end) >= START_NS + 999
    writing.finish()
    writing.close()
    session.close()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_commit_can_wait_for_the_supervisor(
    client: redis.Redis, sessions: rta_writers.SessionClient, delivery: str
) -> None:
    """With wait=true the session shows exact totals when the commit returns."""
    session = sessions.session("run-1", stream="rig")
    settings, outcome = write(session.target, long(500), delivery=delivery, wait="true")
    commit.commit(settings, [outcome], epoch=0)
    assert folded(client, "run-1").samples == 500
    session.close()


@pytest.mark.parametrize("shown", [None, "1 4 9 9 - -"])
def test_waiting_in_vain_is_reported(client: redis.Redis, target: Target, shown: str | None) -> None:
    """Nobody folds, or less than was written: the error says that the rows are safe."""
    settings, outcome = write(target, long(5), wait="true", waitTimeoutS="0.1")
    if shown is not None:
        client.hset(target.keys.session_state("run"), keys.unit_field("job/0"), shown)
        client.expire(target.keys.session_state("run"), 60)
    with pytest.raises(errors.NotFolded, match="The rows stand in the stream"):
        commit.commit(settings, [outcome], epoch=0)
