"""Writers on one core, without Spark: what a delivery costs, and what memory a task takes."""

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import parts
from bench.measure import Case, constant, per_cpu_second, per_second
from rta_wire.codec import encode
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from rta_writers.options.write import GROUP_ROWS, WriteOptions
from rta_writers.write.task import Task

CHANNELS = 100
START_NS = 1_700_000_000_000_000_000
INTERVAL_NS = 10_000_000
GROUPS = 32
IN_FLIGHT_MAX_MIB = 64
WIDE_BATCH_ROWS = {1_000: 1_648, 5_000: 512}
"""By channels, as `rta_writers.tune` sets them."""


@functools.cache
def batch(number: int) -> pa.RecordBatch:
    """131,072 rows of 100 channels: whole steps of a converter."""
    rows = GROUP_ROWS
    at = np.arange(rows, dtype=np.int64) + number * rows
    values = np.round(2000 * np.sin(at / 2000) + np.random.default_rng(number).normal(0, 3, rows))
    return pa.record_batch(
        {
            "channel": pa.array((at % CHANNELS).astype(np.int32)),
            "time": pa.array(START_NS + at // CHANNELS * INTERVAL_NS),
            "value": pa.array(values),
        }
    )


@functools.cache
def wide_batch(channels: int, number: int) -> pa.RecordBatch:
    """A column for each channel, and as many rows as `tune` has Spark put into a batch of so many columns."""
    rows = WIDE_BATCH_ROWS[channels]
    at = np.arange(rows, dtype=np.int64) + number * rows
    columns = {f"c{channel}": pa.array((at * channels + channel) * 0.25) for channel in range(channels)}
    return pa.record_batch({"time": pa.array(START_NS + at * INTERVAL_NS), **columns})


def write(groups: int, delivery: str) -> None:
    """Rows to the stream of a new session."""
    _write((batch(number % 16) for number in range(groups)), {"delivery": delivery})


def write_wide(channels: int, batches: int) -> None:
    """The same with a column for each channel."""
    ids = ",".join(f"c{channel}={channel}" for channel in range(channels))
    _write((wide_batch(channels, number % 2) for number in range(batches)), {"channels": ids})


def _write(batches: Iterator[pa.RecordBatch], extra: dict[str, str]) -> None:
    options = WriteOptions.parse({**parts.fresh_session().options(), **extra})
    first = next(batches)
    task = Task(options, first.schema, unit="bench/0", epoch=0)
    try:
        task.write(first)
        for more in batches:
            task.write(more)
        task.finish()
    finally:
        task.close()


def encode_only(groups: int) -> None:
    """Rows to bursts and no further."""
    encoder = encode.Encoder(options=encode.Options(group_rows=GROUP_ROWS))
    for number in range(groups):
        for _ in encoder.long([batch(number % 16)]):
            pass


def bench_one_core(quick: bool) -> Iterator[Case]:
    """What the promise costs, and what Redis costs."""
    groups = 1 if quick else GROUPS
    rows = groups * GROUP_ROWS
    once = per_second(rows, functools.partial(write, groups, "exactly-once"))
    yield Case(
        "exactly-once against at-least-once, one writer",
        "rows/s",
        once,
        per_second(rows, functools.partial(write, groups, "at-least-once")),
        0.8,
    )
    yield Case(
        "encode, LZ4 and append against encode and LZ4",
        "rows/s",
        once,
        per_second(rows, functools.partial(encode_only, groups)),
        0.65,
    )


def bench_very_wide(quick: bool) -> Iterator[Case]:
    """What is ours of a frame of thousands of columns; Spark's own share is larger (bench/spark.py)."""
    few, many = (1, 1) if quick else (12, 8)
    yield Case(
        "5,000 channels wide against 1,000, one writer",
        "samples/s of processor time",
        per_cpu_second(5_000 * WIDE_BATCH_ROWS[5_000] * many, functools.partial(write_wide, 5_000, many)),
        per_cpu_second(1_000 * WIDE_BATCH_ROWS[1_000] * few, functools.partial(write_wide, 1_000, few)),
        0.5,
    )


def peak_mib(groups: int) -> float:
    """The most that a process took that wrote so many groups, over what it took before."""
    command = [sys.executable, "-m", "bench.writers", parts.redis_url(), str(groups)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def bench_memory(quick: bool) -> Iterator[Case]:
    """A task holds a few groups, however many there are."""
    few, many = (1, 2) if quick else (64, 512)
    yield Case(
        "memory of a task, against its bound",
        "MiB",
        functools.partial(peak_mib, few),
        constant(IN_FLIGHT_MAX_MIB),
        1.0,
        at_most=True,
    )
    yield Case(
        f"memory of a task with {many // few} times the rows",
        "MiB",
        functools.partial(peak_mib, many),
        functools.partial(peak_mib, few),
        1.1,
        at_most=True,
    )


def main() -> None:
    """In a process of its own: writes, and tells how much memory that took."""
    _, url, groups = sys.argv
    target = Target(url, "memory", parts.STREAM, 1)
    with redis_client.connect(url) as client:
        client.flushall()
        client.set(target.keys.gate(parts.STREAM, 1), "open", ex=parts.GATE_TTL_S)
    task = Task(WriteOptions.parse(target.options()), batch(0).schema, unit="bench/0", epoch=0)
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before_kib = _memory_kib("VmRSS")
    for _ in range(int(groups)):
        task.write(batch(0))
    task.finish()
    task.close()
    sys.stdout.write(str((_memory_kib("VmHWM") - before_kib) / 1024))


RESET_PEAK = "5"


def _memory_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
