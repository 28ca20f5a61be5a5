"""A Spark with one core in a process of its own: does a piece of work for each line that it is given, says how fast.

`python -m bench.one_core URL ROWS`, then `write` or `archive` on standard input.
"""

import concurrent.futures
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench import parts
from bench.spark import CHANNELS, START_NS
from rta_supervisor.archive import finalize, verify
from rta_supervisor.archive.plan import ArchiveCandidate, PlannedPart
from rta_wire import archive_spec, entry_ids, keys
from rta_wire.archive.folder import SessionArchive
from rta_wire.session import State
from rta_writers.archive import job as archive_job
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from rta_writers.spark import driver as rta_spark

NUMBER = 1


def main() -> None:
    url, rows = sys.argv[1], int(sys.argv[2])
    spark = archive_job.start("local[1]")
    work: dict[str, Callable[[], float]] = {
        "write": lambda: write(spark, url, rows),
        "archive": lambda: archive(spark, url, rows),
    }
    for line in sys.stdin:
        print(f"figure {work[line.strip()]()}", flush=True)
    spark.stop()


def write(spark: SparkSession, url: str, rows: int) -> float:
    """Rows a second to the stream of a new session."""
    target = Target(url, "bench", parts.STREAM, NUMBER)
    with redis_client.connect(url) as client:
        client.flushall()
        client.set(target.keys.gate(parts.STREAM, NUMBER), "open", ex=parts.GATE_TTL_S)
    frame = spark.range(0, rows, 1, 1).selectExpr(
        f"cast(id % {CHANNELS} as int) channel",
        f"{START_NS} + id div {CHANNELS} * 10000000 time",
        "id * 0.25D value",
    )
    spark.conf.set(rta_spark.ROWS_PER_BATCH, str(rta_spark.BATCH_ROWS))
    started_s = time.perf_counter()
    frame.write.format("rta").mode("append").options(**target.options()).save()
    return rows / (time.perf_counter() - started_s)


def archive(spark: SparkSession, url: str, rows: int, *, split_bytes: bool = False) -> float:
    """Rows a second from that stream to verified files in their place."""
    with redis_client.connect(url) as client:
        size = int(client.memory_usage(keys.stream(parts.STREAM)) or 0)
    session = ArchiveCandidate(
        identity="bench",
        stream=parts.STREAM,
        stream_session_id=NUMBER,
        position="0-0",
        state=State.CLOSED,
        version=1,
        opened_ms=START_NS // 10**6,
        updated_ms=START_NS // 10**6,
        samples=rows,
        stored_bytes=size,
        document=b"{}",
    )
    planned = PlannedPart(session, SessionArchive("bench"), 1, "0-0", entry_ids.MAX, 0)
    wanted = {NUMBER: archive_spec.SessionSpec("bench", size, "0-0")}
    stream = archive_spec.StreamSpec(parts.STREAM, "0-0", entry_ids.MAX, wanted, "double", "raw")
    names = keys.Keys()
    with tempfile.TemporaryDirectory() as folder:
        aside = Path(folder) / "aside"
        aside.mkdir()
        order = archive_spec.ArchiveSpec(
            url, names.prefix, names.session_template, "local[1]", str(aside), 3, split_bytes, ()
        )
        started_s = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(1) as hand:
            checking: list[concurrent.futures.Future[verify.FileContents]] = []
            [outcome] = archive_job.run(
                spark,
                order,
                archive_spec.PassSpec((stream,)),
                lambda files: checking.append(hand.submit(verify.read_files, NUMBER, files[NUMBER], aside)),
            )
            made = finalize.finalize_part(planned, outcome, checking[0].result(), aside, Path(folder) / "archive")
        took_s = time.perf_counter() - started_s
    assert made.rows["samples"] == rows, made
    return rows / took_s


if __name__ == "__main__":
    main()
