"""A Spark of whatever version is installed, an open session without a supervisor, and rows for it."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rta_supervisor.embedded import java, server
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from tests.support import stream_content

ROWS = 5_000
START_NS = 1_700_000_000_000_000_000
WRITTEN = sorted((n % 7, START_NS + n * 1000, n / 4) for n in range(ROWS))


@pytest.fixture(scope="module")
def any_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that runs already, or one of our own."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    os.environ.update(java.spark_environment())
    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.Builder()
        .master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def open_session() -> Iterator[Target]:
    """A session on a server of its own, without a supervisor."""
    with server.running() as running, redis_client.connect(running.url) as client:
        target = Target(running.url, "run-1", "rig", 7)
        client.set(target.keys.gate("rig", 7), "open", ex=600)
        yield target


def frame(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "cast(id % 7 as int) channel", f"{START_NS} + id * 1000 time", "id / 4D value"
    )


def written(target: Target) -> list[tuple[int, int, Any]]:
    with redis_client.connect(target.redis_url) as client:
        return stream_content.samples(client, "rig", 7)
