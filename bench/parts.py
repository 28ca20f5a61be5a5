"""Real parts for benchmarks: one server, one Spark, sessions without a supervisor. Started when first needed."""

import atexit
import contextlib
import functools
import os
import uuid
from typing import TYPE_CHECKING

from rta_supervisor.embedded import java, server
from rta_wire import keys
from rta_writers.connection import redis_client
from rta_writers.options.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "bench"
GATE_TTL_S = 3600


@functools.cache
def redis_url() -> str:
    """A server of our own until the process ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(server.running()).url


def fresh_session() -> Target:
    """An open session in an empty stream."""
    target = Target(redis_url(), uuid.uuid4().hex, STREAM, 1)
    with redis_client.connect(target.redis_url) as client:
        client.flushall()
        client.set(target.keys.gate(STREAM, target.stream_session_id), "open", ex=GATE_TTL_S)
    return target


def stored_bytes() -> int:
    """How much stands in the stream."""
    with redis_client.connect(redis_url()) as client:
        found = client.memory_usage(keys.stream(STREAM), samples=0)
        return int(found or 0)


@functools.cache
def spark() -> "SparkSession":
    """One Spark with two cores."""
    os.environ.update(java.spark_environment())
    from pyspark.sql import SparkSession  # noqa: PLC0415 - other benchmarks start faster

    made = (
        SparkSession.Builder()
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")  # as conf/spark-defaults.conf has it
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    atexit.register(made.stop)
    return made
