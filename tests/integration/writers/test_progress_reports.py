"""Reports of running tasks, and commits that wait for the supervisor."""

from typing import Any

import pytest
import redis

import rta_writers
from rta_wire import errors, keys
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write import commit, progress_reports
from rta_writers.write.task import Task
from tests.integration.writers.tasks import START_NS, long, write
from tests.support.control import folded
from tests.support.waiting import wait_until


def test_a_running_task_reports_every_second(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """The session's time range moves while the task is still running."""
    monkeypatch.setattr(progress_reports, "REPORT_EVERY_S", 0.0)
    session = sessions.session("run-1", stream="rig")
    settings = WriteOptions.parse(session.options)
    task = Task(settings, long(1).schema, unit="job/0", epoch=0)
    task.write(long(1000))
    task.write(long(1000, first=1000))
    end: Any = wait_until(lambda: client.hget("sessions:run-1", keys.T_END), what="a time range")
    assert int(end) >= START_NS + 999
    task.finish()
    task.close()
    session.close()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_commit_can_wait_for_the_supervisor(
    client: redis.Redis, sessions: rta_writers.SessionClient, delivery: str
) -> None:
    """With wait=true the session shows exact totals when the commit returns."""
    session = sessions.session("run-1", stream="rig")
    settings, result = write(session.target, long(500), delivery=delivery, wait="true")
    commit.commit(settings, [result], epoch=0)
    assert folded(client, "run-1").samples == 500
    session.close()


@pytest.mark.parametrize("totals", [None, "1 4 9 9 - -"])
def test_waiting_in_vain_is_reported(client: redis.Redis, target: Target, totals: str | None) -> None:
    """The supervisor has not folded all rows in time: the error says that they are in the stream."""
    settings, result = write(target, long(5), wait="true", waitTimeoutS="0.1")
    if totals is not None:
        client.hset(target.keys.session_state("run"), keys.unit_field("job/0"), totals)
        client.expire(target.keys.session_state("run"), 60)
    with pytest.raises(errors.NotFolded, match="The rows stand in the stream"):
        commit.commit(settings, [result], epoch=0)
