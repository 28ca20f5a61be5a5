"""What tests of the archive share."""

import pytest

from rta_supervisor.archive import spark_process
from tests.support import archive_job_without_spark


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of the archive job run in this process, one after the other."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
