"""The end of an epoch: what a commit checks, and which sessions its rows named."""

from typing import Any

import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write import commit, task
from rta_writers.write.task_result import TaskResult
from tests.integration.writers.tasks import START_NS, long, run, write
from tests.support import stream_content


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
    rows = pa.record_batch({"session": ["a", "b", "c"], "channel": [1, 1, 1], "time": [1, 2, 3], "value": [1.0] * 3})
    killed_group = rta_writers.sessions(sessions, stream="rig")
    run(WriteOptions.parse(killed_group.options), rows, unit="job/0", epoch=4)
    killed_group._heartbeats.request_stop()
    with rta_writers.sessions(sessions, stream="rig") as group:
        settings = WriteOptions.parse(group.options)
        replay = run(settings, rows.slice(0, 2), unit="job/0", epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'c'"):
            commit.commit(settings, [replay], epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'a'"):
            commit.commit(settings, [TaskResult("job/0", 4)], epoch=4)
        commit.commit(settings, [TaskResult("job/0", 5)], epoch=5)
        commit.commit(settings, [run(settings, rows, unit="job/0", epoch=4)], epoch=4)


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
        stream_session_id: Any = client.hget(f"sessions:{identity}", "streamSessionId")
        samples = stream_content.samples(client, "rig", int(stream_session_id))
        assert samples == sorted((n % 7, START_NS + n, n / 4) for n in range(6000) if n % 3 == number)
        assert (group.ended[identity].state, group.ended[identity].totals.samples) == ("closed", 2000)


def test_a_null_session_is_refused(url: str) -> None:
    """A row without a session fails its task."""
    batch = pa.record_batch({"channel": [1], "time": [1], "value": [1.0], "session": pa.array([None], pa.string())})
    with pytest.raises(errors.BadSamples, match="the session is null"):
        run(WriteOptions.parse({"redisUrl": url, "stream": "rig"}), batch)
