"""The password of Redis in a Spark job: not in plans and not in the configuration, which people look at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import credentials
from rta_writers.options.target import Target
from tests.support import samples, supervisors

pytestmark = pytest.mark.spark

SECRET = "s3cret-of-a-spark-job"  # noqa: S105 - of a server that lives for a minute
START = samples.START_NS


@pytest.fixture(scope="module")
def locked() -> Iterator[server.EmbeddedServer]:
    """A server with a password, and a supervisor that knows it."""
    with server.running(port=server.free_port()) as running:
        with redis.Redis(unix_socket_path=str(running.socket_path)) as client:
            client.config_set("requirepass", SECRET)
        with supervisors.running(running.url, {credentials.PASSWORD_VARIABLE: SECRET}):
            yield running


@pytest.mark.parametrize("location", ["in the URL", "in a file"])
def test_no_part_of_spark_shows_the_password(
    spark: SparkSession,
    locked: server.EmbeddedServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    location: str,
) -> None:
    """Plans, in every form that Spark shows, are what its UI and its event log have of a job's options."""
    (tmp_path / "password").write_text(SECRET)
    url = f"redis://:{SECRET}@127.0.0.1:{locked.port}"
    if location == "in a file":
        url = f"{locked.url}?password_file={tmp_path / 'password'}"
    stream = f"rig-{location.replace(' ', '-')}"
    with rta_writers.SessionClient(url, timeout_s=20).open(f"run {location}", stream=stream) as session:
        frame = spark.createDataFrame([(1, START, 1.0), (1, START + 1, 2.0)], "channel int, time long, value double")
        frame.write.format("rta").mode("append").options(**session.options).save()
        read = spark.read.format("rta").options(redisUrl=url, session=session.identity).load()
        assert read.count() == 2
        read.explain("extended")
        read.explain("formatted")
        plan: Any = read._jdf.queryExecution()
        plans = [plan.toString(), plan.optimizedPlan().toString(), plan.executedPlan().verboseStringWithSuffix(1000)]
    output = capfd.readouterr().out + "".join(plans)
    assert "rta" in output
    assert SECRET not in output
    assert SECRET not in str(spark.sparkContext.getConf().getAll())


def test_no_error_of_a_job_shows_the_password(spark: SparkSession) -> None:
    """What Spark prints of a failed job, with the traceback of its Python process, says where, and not how."""
    target = Target(f"redis://:{SECRET}@127.0.0.1:{server.free_port()}", "run", "rig", 7)
    frame = spark.createDataFrame([(1, START, 1.0)], "channel int, time long, value double")
    with pytest.raises(PySparkException) as failed:
        frame.write.format("rta").mode("append").options(**target.options()).save()
    assert "redis://:***@127.0.0.1" in str(failed.value)
    assert SECRET not in str(failed.value)
