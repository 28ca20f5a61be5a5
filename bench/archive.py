"""The archive against the live writer, each on a Spark with one core, in one run: it has to be the faster one."""

import atexit
import functools
import os
import subprocess
import sys
from collections.abc import Iterator

from bench import parts
from bench.measure import Case
from rta_supervisor.embedded import java

ROWS = 12_000_000
QUICK_ROWS = 20_000


class OneCore:
    """The other process."""

    def __init__(self, rows: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.one_core", parts.redis_url(), str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **java.spark_environment()},
        )
        atexit.register(self._end)

    def ask(self, work: str) -> float:
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
def one_core(rows: int) -> OneCore:
    return OneCore(rows)


def archive(rows: int) -> float:
    """What the writer left in the stream."""
    core = one_core(rows)
    if not _is_filled.get(rows):
        write(rows)
    return core.ask("archive")


def write(rows: int) -> float:
    _is_filled[rows] = True
    return one_core(rows).ask("write")


_is_filled: dict[int, bool] = {}


def bench_archive(quick: bool) -> Iterator[Case]:
    rows = QUICK_ROWS if quick else ROWS
    yield Case(
        "archive, verified, against live writing, one core of Spark each",
        "rows/s",
        functools.partial(archive, rows),
        functools.partial(write, rows),
        bar=0.5,
    )
