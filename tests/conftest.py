"""The real parts that tests use: one Valkey server, supervisors as processes, one Spark session."""

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import redis
import structlog

import rta_writers
from rta_supervisor.embedded import java, server
from rta_writers.connection import redis_client
from rta_writers.write import lost_rows
from tests.support import postgres, supervisors, ttl_check, worker_schedule

# Properties with no number of their own: a few seconds each, or minutes in a soak.
hypothesis.settings.register_profile("test", max_examples=100, deadline=None)
hypothesis.settings.register_profile("soak", max_examples=20_000, deadline=None)
hypothesis.settings.load_profile("soak" if os.environ.get("RTA_SOAK") else "test")

# A JVM that lives for a minute has no use for the compiler that makes it fast after several.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return worker_schedule.scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run of several workers: what takes long goes first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: worker_schedule.place(item.nodeid))


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Who configures the log in a test does so for that test: what it printed to is gone afterwards."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[server.EmbeddedServer]:
    with server.running() as running:
        yield running


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[postgres.Server]:
    with postgres.running() as running:
        yield running


@pytest.fixture
def url(shared_server: server.EmbeddedServer) -> Iterator[str]:
    """An empty server; afterwards no key of ours may lack a TTL that should have one."""
    with redis_client.connect(shared_server.url) as client:
        client.flushall()
        client.function_flush()
        lost_rows.acknowledged_units.clear()
        yield shared_server.url
        assert ttl_check.keys_without_ttl(client) == []


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    with redis_client.connect(url) as client:
        yield client


@pytest.fixture
def supervisor(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url) as running:
        yield running
        running.hurry()


@pytest.fixture
def sessions(url: str, supervisor: supervisors.Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    return rta_writers.SessionClient(url, timeout_s=20)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    os.environ.update(java.spark_environment())
    from pyspark.sql import SparkSession  # noqa: PLC0415 - tests without Spark start faster

    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.Builder()
        .master("local[2,3]")  # two cores, and a task may fail twice
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    rta_writers.register(session)
    yield session
    session.stop()
