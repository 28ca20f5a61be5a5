"""What the archive job prints for the command that started it: an event of `rta_wire.archive_spec` on each line."""

import re
import sys
import threading
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from rta_wire import archive_spec

POLL_S: Final = 0.3
STAGES: Final = 2
"""Stages of a pass: write, count."""

_RTA_ERROR: Final = re.compile(r"rta_wire\.errors\.(\w+): (.+)")
"""An error of `rta_wire.errors` in the text of one of Spark's."""

_print_lock: Final = threading.Lock()


def emit(event: archive_spec.JobEvent) -> None:
    """Print an event."""
    with _print_lock:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()


def spark_failure(error: Exception) -> archive_spec.JobFailed:
    """The event for an error of Spark: that of the task which failed, where it is one of `rta_wire.errors`."""
    if rta_errors := _RTA_ERROR.findall(str(error)):
        code, message = rta_errors[-1]
        return archive_spec.JobFailed(code, message.strip())
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
    return archive_spec.JobFailed(
        "Unavailable", f"Spark is not available: {lines[0] if lines else type(error).__name__}"
    )


class ProgressReporter:
    """Prints, from a thread of its own, how much of a pass is done while the block runs."""

    def __init__(self, spark: SparkSession, number: int) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._number = number
        self._stopping = threading.Event()
        self._stages: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(POLL_S):
            for stage in self._tracker.getActiveStageIds():
                if (info := self._tracker.getStageInfo(stage)) is not None and info.numTasks:
                    self._stages[stage] = info.numCompletedTasks / info.numTasks
            latest = max(self._stages, default=0)
            done = sum(1.0 if stage < latest else share for stage, share in self._stages.items())
            emit(archive_spec.JobProgress(self._number, min(done / STAGES, 1.0)))
