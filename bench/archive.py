"""The speed of the archive, compared with the live writer in the same run: each on a Spark with one core. Then what a
part costs late in a long session, and how long a read of a little out of much takes.
"""

import atexit
import functools
import os
import subprocess
import sys
from collections.abc import Iterator

from bench import archive_parts, parts
from bench.measure import Case
from rta_supervisor.embedded import java

ROWS = 12_000_000
QUICK_ROWS = 20_000


class OneCoreProcess:
    """A process with Spark on one core, which writes or archives the same rows when it is asked to."""

    def __init__(self, rows: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.one_core", parts.redis_url(), str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **java.spark_environment()},
        )
        atexit.register(self._end)

    def measure(self, work: str) -> float:
        """Rows per second of one piece of work: "write" or "archive"."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{work}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("figure "):
                return float(line.split()[1])
        raise RuntimeError(f"the process with one core ended with {self._process.wait()}")

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(60)


@functools.cache
def one_core_process(rows: int) -> OneCoreProcess:
    return OneCoreProcess(rows)


def archive(rows: int) -> float:
    """Archive what is in the stream, which is written first where it is empty."""
    if rows not in _written:
        write(rows)
    return one_core_process(rows).measure("archive")


def write(rows: int) -> float:
    _written.add(rows)
    return one_core_process(rows).measure("write")


_written: set[int] = set()
"""Numbers of rows that are in the stream of their process."""


def bench_archive(quick: bool) -> Iterator[Case]:
    rows = QUICK_ROWS if quick else ROWS
    yield Case(
        "archive, verified, against live writing, one core of Spark each",
        "rows/s",
        functools.partial(archive, rows),
        functools.partial(write, rows),
        bar=0.9,
    )
    yield Case(
        "the tenth part of a session against its first, as much new data in each",
        "rows/s",
        lambda: archive_parts.part_rate(10, quick=quick),
        lambda: archive_parts.part_rate(1, quick=quick),
        bar=1 / 1.2,
    )
    yield Case(
        "one minute of one channel out of ten hours and 100 channels, from the archive",
        "reads/s",
        lambda: archive_parts.read_rate(quick=quick),
        lambda: archive_parts.READS_PER_S,
        bar=1.0,
    )
