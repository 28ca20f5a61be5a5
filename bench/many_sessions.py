"""Sessions of one Spark job: opened, written and closed together, against one after another."""

import functools
import itertools
import time
from collections.abc import Iterator

import pyarrow as pa

import rta_writers
from bench import load, parts
from bench.measure import Case

SESSIONS = 10_000
QUICK_SESSIONS = 300
SEPARATE_SESSIONS = 200
ROWS_PER_SESSION = 3
START_NS = 1_700_000_000_000_000_000

_runs = itertools.count()


@functools.cache
def client() -> rta_writers.SessionClient:
    """A client of a daemon that runs until the process ends."""
    load.rig().only("many sessions", _start)
    return rta_writers.SessionClient(load.rig().url)


def _start() -> None:
    load.rig().start()


def by_one_job(count: int) -> float:
    """Sessions per second of a job with two partitions, each of which has rows of all sessions."""
    spark = parts.spark()
    rta_writers.register(spark)
    sessions, run = client(), next(_runs)
    frame = spark.range(0, count * ROWS_PER_SESSION, 1, 2).selectExpr(
        f"concat('job-{run}-', id % {count}) session", "1 channel", f"{START_NS} + id time", "id / 4D value"
    )
    started_s = time.perf_counter()
    with rta_writers.sessions(sessions, stream=load.STREAM) as group:
        frame.write.format("rta").mode("append").options(**group.options).save()
    taken_s = time.perf_counter() - started_s
    samples = sum(ended.totals.samples for ended in group.ended.values())
    assert (len(group.ended), samples) == (count, count * ROWS_PER_SESSION)
    return count / taken_s


def one_by_one(count: int) -> float:
    """Sessions per second of a program that has a session and a writer at a time."""
    sessions, run = client(), next(_runs)
    started_s = time.perf_counter()
    for number in range(count):
        with sessions.open(f"single-{run}-{number}", stream=load.STREAM) as session:
            rows = range(ROWS_PER_SESSION)
            with rta_writers.BurstWriter(session.options) as writer:
                times = pa.array([START_NS + row for row in rows])
                writer.write(pa.record_batch({"channel": [1] * len(rows), "time": times, "value": [0.25] * len(rows)}))
    return count / (time.perf_counter() - started_s)


def bench_many_sessions(quick: bool) -> Iterator[Case]:
    """How fast a job with many sessions is."""
    count = QUICK_SESSIONS if quick else SESSIONS
    yield Case(
        f"{count:,} sessions of one Spark job, opened, written and closed; reference: one session after another",
        "sessions/s",
        lambda: by_one_job(count),
        lambda: one_by_one(min(count, SEPARATE_SESSIONS)),
        bar=2.0,
    )
