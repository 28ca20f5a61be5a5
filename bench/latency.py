"""How long a sample takes from the program to the stream, its time range to the hash, and a micro-batch to its sink.

Whoever reads is a process of its own (`bench.latency_reader`). Rows are differences to the floor of the same run, or
times, against what they may be.
"""

import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import redis

import rta_writers
from bench import load, parts, stamping_sink
from bench.measure import Case, constant
from rta_wire import entry_ids, keys
from rta_wire.codec import decode
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write.task import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANNELS = 50
HZ = 100
TICKS = 1000
QUICK_TICKS = 30
REFRESH_MS = 100
BARE_BYTES = 800
"""What a tick of 50 channels takes as a burst."""

FLUSH_MORE_MS = 5
TIMER_MS = 130
BEHIND_MS = REFRESH_MS + 50
CALL_MS = 1
CORE_SHARE = 0.08
FIRST_CALL_MS = 50
SPARK_MORE_MS = 25
TRIGGER_MS = 100
WARM_BATCHES = 40
BATCHES = 60


class Ticks:
    """Calls that are due every 10 ms."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.call_s: list[float] = []

    def run(self, call: Callable[[int], object]) -> None:
        started_s = time.perf_counter()
        for tick in range(self.count):
            time.sleep(max(0.0, started_s + tick / HZ - time.perf_counter()))
            began_s = time.perf_counter()
            call(time.time_ns())
            self.call_s.append(time.perf_counter() - began_s)


class Reading(NamedTuple):
    """Milliseconds: samples from their making to their reader, and how far hash and time range are behind these."""

    seen: list[float]
    hash_behind: list[float]
    range_behind: list[float]


def p95(values: list[float]) -> float:
    return float(np.percentile(values, 95))


def read_while(url: str, identity: str, work: Callable[[], None], wait_s: float = 1.5) -> Reading:
    """What a reader sees of a stream while work is done, and a little longer."""
    command = [sys.executable, "-m", "bench.latency_reader", url, keys.stream(parts.STREAM), f"sessions:{identity}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        work()
        time.sleep(wait_s)
        answer, _ = reader.communicate("end\n")
    return Reading(**json.loads(answer))


def tick_columns(now_ns: int) -> tuple[list[int], list[int], list[float]]:
    return list(range(CHANNELS)), [now_ns] * CHANNELS, [now_ns % 1000 + 0.25 * n for n in range(CHANNELS)]


def write_ticks(target: Target, ticks: Ticks, *, is_flushed: bool) -> None:
    with rta_writers.BurstWriter(target.options()) as writer:

        def call(now_ns: int) -> None:
            writer.samples(*tick_columns(now_ns))
            if is_flushed:
                writer.flush()

        ticks.run(call)


def write_bare(client: redis.Redis, ticks: Ticks) -> None:
    payload = b"x" * BARE_BYTES

    def call(now_ns: int) -> None:
        client.xadd(keys.stream(parts.STREAM), {"t": now_ns, "data": payload})

    ticks.run(call)


def tick_ms(count: int, *, is_flushed: bool) -> float:
    """The 95th percentile of what samples take to their reader."""
    target = parts.fresh_session()
    work = functools.partial(write_ticks, target, Ticks(count), is_flushed=is_flushed)
    return p95(read_while(target.redis_url, target.identity, work).seen)


def flush_more_ms(count: int) -> float:
    """With `flush` at each tick, more than a bare XADD."""
    ours = tick_ms(count, is_flushed=True)
    with redis_client.connect(parts.redis_url()) as client:
        bare = read_while(parts.redis_url(), "none", functools.partial(write_bare, client, Ticks(count)))
    return max(0.01, ours - p95(bare.seen))


def call_ms(count: int) -> float:
    """What the caller waits for `samples` and `flush`, in the mean."""
    ticks = Ticks(count)
    write_ticks(parts.fresh_session(), ticks, is_flushed=True)
    return 1000 * statistics.fmean(ticks.call_s)


def core_share(count: int) -> float:
    """Processor time of `samples` and `flush`, timer and all, at 100 ticks a second: more than the loop that makes the
    columns takes without them."""
    target = parts.fresh_session()
    return used_share(lambda ticks: write_ticks(target, ticks, is_flushed=True), count) - used_share(
        lambda ticks: ticks.run(tick_columns), count
    )


def used_share(work: Callable[[Ticks], object], count: int) -> float:
    """Processor time of this process a second."""
    began_s, used_s = time.perf_counter(), time.process_time()
    work(Ticks(count))
    return (time.process_time() - used_s) / (time.perf_counter() - began_s)


FIRST_CALL = """
import sys, time
import rta_writers
writer = rta_writers.BurstWriter(dict(word.split("=", 1) for word in sys.argv[1:]))
columns = list(range(50)), [time.time_ns()] * 50, [0.5] * 50
began_s = time.perf_counter()
writer.samples(*columns)
print(1000 * (time.perf_counter() - began_s))
writer.close()
"""


def first_call_ms() -> float:
    """The first `samples` of a process."""
    options = [f"{name}={value}" for name, value in parts.fresh_session().options().items()]
    command = [sys.executable, "-c", FIRST_CALL, *options]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def bench_ticks(quick: bool) -> Iterator[Case]:
    """A recorder: 100 ticks a second of 50 channels."""
    count = QUICK_TICKS if quick else TICKS
    rows: list[tuple[str, str, Callable[[], float], float]] = [
        ("flush at each tick, p95 more than a bare XADD", "ms", functools.partial(flush_more_ms, count), FLUSH_MORE_MS),
        ("default timer, p95", "ms", functools.partial(tick_ms, count, is_flushed=False), TIMER_MS),
        ("samples and flush, a call", "ms", functools.partial(call_ms, count), CALL_MS),
        ("flush at each tick, share of a core", "cores", functools.partial(core_share, count), CORE_SHARE),
        ("first call of a process", "ms", first_call_ms, FIRST_CALL_MS),
    ]
    for name, unit, figure, bar in rows:
        yield Case(f"recorder: {name}", unit, figure, constant(bar), 1.0, at_most=True)


def behind_ms(work: Callable[[Target, int], None], count: int) -> float:
    """How far hash and time range are behind the stream, whichever is later: the 95th percentile."""
    rig = load.rig()

    def set_up() -> None:
        rig.start(RTA_SESSION__REFRESH_MS=str(REFRESH_MS))

    rig.only("latency", set_up)
    session = rta_writers.SessionClient(rig.url).session(f"run-{time.time_ns()}", stream=parts.STREAM)
    reading = read_while(rig.url, session.target.identity, functools.partial(work, session.target, count))
    session.close()
    return max(p95(reading.hash_behind), p95(reading.range_behind))


def write_long_task(target: Target, count: int) -> None:
    """A task that gets rows now and then, and sends them when they have waited for a second."""
    task: Task | None = None
    for _ in range(max(2, count // 20)):
        now_ns = time.time_ns()
        times = now_ns - np.arange(1000)[::-1] * 1000
        batch = pa.record_batch({"channel": np.zeros(1000, np.int64), "time": times, "value": np.arange(1000) / 4})
        task = task or Task(WriteOptions.parse(target.options()), batch.schema, unit="job/0", epoch=0)
        task.write(batch)
        time.sleep(0.2)
    assert task is not None
    task.finish()
    task.close()


def bench_time_ranges(quick: bool) -> Iterator[Case]:
    """What people see of a session that is written to."""
    count = QUICK_TICKS if quick else TICKS
    writers: dict[str, Callable[[Target, int], None]] = {
        "BurstWriter with flush": lambda target, ticks: write_ticks(target, Ticks(ticks), is_flushed=True),
        "BurstWriter with its timer": lambda target, ticks: write_ticks(target, Ticks(ticks), is_flushed=False),
        "a long task": write_long_task,
    }
    for name, work in writers.items():
        figure = functools.partial(behind_ms, work, count)
        yield Case(f"time range behind the stream, p95: {name}", "ms", figure, constant(BEHIND_MS), 1.0, at_most=True)


def stamped_frame(samples_per_s: int) -> "DataFrame":
    """A micro-batch of as many rows as come in the time of a trigger, with the time at which it began."""
    frame = parts.spark().readStream.format("rate-micro-batch")
    rows = frame.option("rowsPerBatch", samples_per_s * TRIGGER_MS // 1000).load()
    return rows.selectExpr("cast(value % 100 as int) channel", "unix_micros(now()) * 1000 time", "value * 0.25D value")


def run_query(frame: "DataFrame", sink: str, options: dict[str, str], batches: int) -> dict[str, float]:
    """What each step of a micro-batch took by Spark's own account, the median of the second half, in ms."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=f"{TRIGGER_MS} milliseconds").start()
        while query.isActive and (query.lastProgress or {"batchId": 0})["batchId"] < batches:
            time.sleep(0.05)
        query.stop()
        problem = query.exception()
        if problem is not None:
            raise problem
        taken = [progress["durationMs"] for progress in query.recentProgress[batches // 2 :]]
    return {step: statistics.median(some.get(step, 0) for some in taken) for step in taken[-1]} if taken else {}


def median_age_ms(stamps: list[tuple[int, int]]) -> float:
    """From the times at which micro-batches began and arrived: the median age of samples that were made evenly."""
    ages: list[float] = []
    arrived = dict(sorted(stamps))
    for before_ns, began_ns in zip(list(arrived), list(arrived)[1:], strict=False):
        ages += ((arrived[began_ns] - np.linspace(before_ns, began_ns, 20)) / 1e6).tolist()
    return statistics.median(ages)


def stream_stamps() -> list[tuple[int, int]]:
    """When each micro-batch in the stream began, and when Redis took it: its clock gives the ids of entries."""
    with redis_client.connect(parts.redis_url()) as client:
        entries: Any = client.xrange(keys.stream(parts.STREAM))
    stamps = []
    for entry_id, fields in entries:
        times = [some.times_ns for some in decode.columns([fields[b"data"]]).samples.values()]
        stamps.append((int(times[0][0]), entry_ids.ms_of(entry_id.decode()) * 1_000_000 + 500_000))
    return stamps


def spark_ms(samples_per_s: int, batches: int, sink: str) -> float:
    """The median age of samples when they are in the stream, or in the hands of a sink that stamps them."""
    stamping_sink.ready()
    frame = stamped_frame(samples_per_s)
    if sink == "rta":
        run_query(frame, sink, parts.fresh_session().options(), batches)
        stamps = stream_stamps()
    else:
        with tempfile.TemporaryDirectory() as folder:
            run_query(frame, sink, {"folder": folder}, batches)
            stamps = stamping_sink.read_stamps(Path(folder))
    began = sorted({began_ns for began_ns, _ in stamps})
    warm_ns = began[min(WARM_BATCHES, len(began) // 2)]
    return median_age_ms([stamp for stamp in stamps if stamp[0] >= warm_ns])


@functools.cache
def warm_spark(batches: int) -> None:
    """Java compiles what both sinks need: else whichever comes first seems to be the slower one."""
    for sink in ("rta", stamping_sink.NAME):
        spark_ms(10_000, batches, sink)


def spark_more_ms(samples_per_s: int, batches: int) -> float:
    warm_spark(batches)
    ours = spark_ms(samples_per_s, batches, "rta")
    return max(0.1, ours - spark_ms(samples_per_s, batches, stamping_sink.NAME))


def bench_spark(quick: bool) -> Iterator[Case]:
    """A query with a trigger of 100 ms, warm: more than a sink that looks at the clock and lets go of the rows."""
    batches = 4 if quick else WARM_BATCHES + BATCHES
    for samples_per_s in (1_000, 10_000, 100_000):
        figure = functools.partial(spark_more_ms, samples_per_s, batches)
        name = f"Spark, trigger 100 ms, {samples_per_s:,} samples/s: p50 more than a sink that stamps"
        yield Case(name, "ms", figure, constant(SPARK_MORE_MS), 1.0, at_most=True)


def main() -> None:
    """Prints what docs/performance.md says of Spark: ages at each rate, ours and the floor, then the steps of a
    micro-batch with Spark's own sink, the floor and ours. p50 in ms."""
    batches = WARM_BATCHES + BATCHES
    warm_spark(batches)
    for samples_per_s in (1_000, 10_000, 100_000):
        for sink in ("rta", stamping_sink.NAME):
            sys.stdout.write(f"{samples_per_s} {sink} {spark_ms(samples_per_s, batches, sink):.0f}\n")
    with tempfile.TemporaryDirectory() as folder:
        for sink in ("noop", stamping_sink.NAME, "rta"):
            options = parts.fresh_session().options() if sink == "rta" else {"folder": folder}
            steps = run_query(stamped_frame(10_000), sink, options, batches)
            sys.stdout.write(f"{sink} {json.dumps(steps)}\n")


if __name__ == "__main__":
    main()
