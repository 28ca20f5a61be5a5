"""A Redis that is stuck or full slows tasks down: they take no more rows, hold little, and lose nothing."""

import concurrent.futures
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from tests.spark import frames
from tests.support import proxy, samples, stream_content
from tests.support.waiting import wait_until

BATCH_ROWS = 16_384
BATCHES = 256
ROW_BYTES = 4 + 8 + 8
IN_FLIGHT_MAX_BYTES = 64 << 20
STILL_S = 1.0


@contextlib.contextmanager
def stuck(between: proxy.Proxy, client: redis.Redis) -> Iterator[None]:
    """Redis answers nothing."""
    del client
    between.hold()
    yield
    between.release()


@contextlib.contextmanager
def full(between: proxy.Proxy, client: redis.Redis) -> Iterator[None]:
    """Redis takes no more data."""
    del between
    client.config_set("maxmemory", "1mb")
    yield
    client.config_set("maxmemory", "0")


def batches_taken(marker: Path) -> int:
    """Batches that Spark has taken from the source so far."""
    return len(list(marker.iterdir()))


def settled_batches(marker: Path) -> int:
    """Wait until Spark takes no more batches for a while, and count those it has taken."""
    counts = [batches_taken(marker)]
    quiet = threading.Event()

    def unchanged() -> bool:
        quiet.wait(STILL_S)
        counts.append(batches_taken(marker))
        return counts[-1] == counts[-2]

    wait_until(unchanged, timeout_s=60, what="a source that stands still")
    return counts[-1]


@pytest.mark.parametrize("trouble", [stuck, full])
@pytest.mark.timeout(600)
def test_a_source_waits_for_redis(spark: SparkSession, tmp_path: Path, trouble: object) -> None:
    """84 MB of rows, and a Redis that stops in the middle: at most 64 MiB of them are anywhere in between."""
    marker, start_ns = str(tmp_path), samples.START_NS

    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            for number in range(BATCHES):
                numbers = np.arange(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
                columns = [
                    pa.array((numbers % 7).astype("int32")),
                    pa.array(start_ns + numbers * 1000),
                    pa.array(numbers / 4),
                ]
                yield pa.record_batch(columns, names=["channel", "time", "value"])
                Path(marker, str(number)).touch()

    with server.running() as running, proxy.between(str(running.socket_path)) as between:
        client = redis_client.connect(running.url)
        target = Target(between.url, "run-1", "rig", 7)
        client.set(target.keys.gate("rig", 7), "open", ex=600)
        rta_writers.register(spark)
        frame = spark.range(0, 1, 1, 1).mapInArrow(produce, frames.SCHEMA)
        writer = frame.write.format("rta").mode("append").options(**target.options())
        is_over = threading.Event()

        def rows_in_flight() -> int:
            """Rows on their way while there is trouble."""
            wait_until(lambda: client.xlen("stream:rig") > 1, timeout_s=60, what="rows")
            with trouble(between, client):  # type: ignore[operator]
                rows = settled_batches(tmp_path) * BATCH_ROWS - samples_written(client)
                assert not is_over.is_set()
            return rows

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            watching = pool.submit(rows_in_flight)
            writer.save()
            is_over.set()
        assert 0 < watching.result() * ROW_BYTES <= IN_FLIGHT_MAX_BYTES
        assert batches_taken(tmp_path) == BATCHES
        assert samples_written(client) == BATCHES * BATCH_ROWS
        times_ns = np.concatenate(
            [columns.times_ns for columns in stream_content.decoded(client, "rig", 7).samples.values()]
        )
        assert np.unique(times_ns).size == times_ns.size == BATCHES * BATCH_ROWS
        client.close()


def samples_written(client: redis.Redis) -> int:
    """Samples in the stream, by the marks that were written with them."""
    return sum(
        int(text.split()[3])
        for name in client.scan_iter(match="rtas:dd:*", _type="hash")
        for text in client.hvals(name)
    )


def test_a_task_holds_little_however_many_rows_there_are(url: str) -> None:
    """Peak memory of a process that writes, beyond its imports: 8 times the rows need no more."""

    def peak_mib(groups: int) -> float:
        command = [sys.executable, "-m", "bench.writers", url, str(groups)]
        root = Path(__file__).parents[2]
        return float(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)

    few, many = peak_mib(8), peak_mib(64)
    assert many < 64
    assert many < few + 8
