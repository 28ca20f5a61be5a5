"""What tests of the archive share."""

from collections.abc import Iterator

import pytest

import rta_writers
from rta_supervisor.archive import spark_process
from tests.integration.archive.archive_runs import sessions_of
from tests.support import archive_job_without_spark


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of the archive job run in this process, one after the other."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)


@pytest.fixture
def sessions(url: str) -> Iterator[rta_writers.SessionClient]:
    """A client of a supervisor that runs."""
    with sessions_of(url) as made:
        yield made


@pytest.fixture
def session(sessions: rta_writers.SessionClient) -> rta_writers.Session:
    """A session that is open."""
    return sessions.open("run-1", stream="rig")
