"""Spark does what it does: tasks fail, have twins, lose their executors, and drivers are killed and start again."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet

import rta_writers
from rta_supervisor.embedded import java
from tests.chaos import leash, spark_job, stamps, world
from tests.chaos.result import Result
from tests.chaos.world import World
from tests.support.waiting import wait_until

JOB_PATIENCE_S: Final = 600
FILES_PER_KILL: Final = 3
FILE_ROWS: Final = 4000
KILL_AFTER_S: Final = (0.0, 1.5)
QUICK_JVM: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Driver:
    """One Spark driver with all that belongs to it: Python, JVM, workers."""

    def __init__(self, own: World, session: rta_writers.Session, run: str, count: int, **options: str) -> None:
        self._log_path = own.directory / "spark.log"
        given = {**session.options, "redisUrl": own.patient_url, **options}
        command = [
            *(
                sys.executable,
                "-m",
                "tests.chaos.spark_job",
                run,
                *(f"{name}={value}" for name, value in given.items()),
            ),
            *("--work", str(own.directory), "--notes", str(own.notes(0)), "--count", str(count)),
        ]
        environment = {**os.environ, **java.spark_environment(), **QUICK_JVM, **leash.held()}
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def signal(self, number: int) -> None:
        """To the whole group: the driver is a Python process, a JVM and its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(JOB_PATIENCE_S)

    def tail_of_log(self) -> str:
        return self._log_path.read_text(errors="replace")[-3000:]


@contextlib.contextmanager
def driving(own: World, session: rta_writers.Session, run: str, count: int = 0, **options: str) -> Iterator[Driver]:
    driver = Driver(own, session, run, count, **options)
    try:
        yield driver
    finally:
        driver.kill()


def run_batches(
    seed: str, advance: Callable[[], None], *, runs: dict[str, int], delivery: str = "exactly-once"
) -> Result:
    """Batch jobs: names of runs of the job, with the partitions of each."""
    with world.made(seed, world.KEEPS, supervisors=1) as own:
        session = own.open("session", range(1))
        for name, partitions in runs.items():
            with driving(own, session, name, partitions, delivery=delivery) as driver:
                assert driver.wait() == 0, driver.tail_of_log()
            advance()
        for found, marked in (("task failed", "failed-"), ("task doubled", "twin-")):
            own.counts[found] = len(list(own.directory.glob(f"{marked}*")))
        for harm in ("killed", "frozen"):
            own.counts[f"executor {harm}"] = len(list(own.directory.glob(f"{harm}-*")))
        return _judge(own, session)


def run_drivers(seed: str, advance: Callable[[], None], *, kills: int, delivery: str = "exactly-once") -> Result:
    """A streaming query whose driver is killed again and again; sometimes Spark also forgets its last commit."""
    with world.made(seed, world.KEEPS, supervisors=1) as own:
        session = own.open("session", range(1))
        _land(own, files=kills * FILES_PER_KILL)
        for _ in range(kills):
            with driving(own, session, "stream", delivery=delivery) as driver:
                before = _entries(own, session)
                wait_until(
                    lambda: _entries(own, session) > before or driver.exit_code is not None,  # noqa: B023
                    timeout_s=JOB_PATIENCE_S,
                    what="rows of a new driver",
                )
                if own.chooser.random() < 0.3:
                    driver.signal(signal.SIGSTOP)
                    time.sleep(own.chooser.uniform(0.1, 1))
                    driver.signal(signal.SIGCONT)
                    own.counts["driver frozen"] += 1
                time.sleep(own.chooser.uniform(*KILL_AFTER_S))
                if driver.exit_code is not None:
                    break
                driver.kill()
                own.counts["driver killed"] += 1
            if own.chooser.random() < 0.5:
                own.counts["epoch replayed"] += _tear_last_commit(own.directory)
            advance()
        with driving(own, session, "stream", delivery=delivery) as driver:
            assert driver.wait() == 0, driver.tail_of_log()
        return _judge(own, session)


def run_repartitioned(seed: str, advance: Callable[[], None]) -> Result:
    """An epoch is replayed in another number of partitions: refused, or right where rows are staged."""
    total = Result(runs=0)
    for delivery in ("exactly-once", "staged"):
        with world.made(f"{seed}/{delivery}", world.KEEPS, supervisors=1) as own:
            session = own.open("session", range(1))
            _land(own, files=2)
            for partitions, wanted in ((3, 0), (2, spark_job.REFUSED if delivery == "exactly-once" else 0), (3, 0)):
                with driving(own, session, "stream", partitions, delivery=delivery) as driver:
                    assert driver.wait() == wanted, driver.tail_of_log()
                own.counts["epoch replayed"] += _tear_last_commit(own.directory)
                if partitions == 2:
                    own.counts[f"other partitions: {'refused' if wanted else 'staged anew'}"] += 1
            total.add(_judge(own, session, is_ordered=False))
        advance()
    total.runs = 1
    return total


def _land(own: World, files: int) -> None:
    """Files in the order of their names, as a recorder leaves them. They are acknowledged when the query has ended."""
    folder = own.directory / "in"
    folder.mkdir()
    for epoch in range(files):
        codes = stamps.codes(0, epoch, 0, FILE_ROWS)
        columns = {"channel": stamps.channels(codes).astype("int32"), "time": stamps.times_ns(codes)}
        path = folder / f"{epoch:04}.parquet"
        pyarrow.parquet.write_table(pa.table({**columns, "value": stamps.values(codes)}), path)
        os.utime(path, (epoch + 1, epoch + 1))
    own.notes(0).write_text("".join(f"A 0 {epoch} 0 {FILE_ROWS}\n" for epoch in range(files)))


def _entries(own: World, session: rta_writers.Session) -> int:
    with own.client as client:
        return int(client.xlen(f"stream:{session.target.stream}"))


def _tear_last_commit(work: Path) -> int:
    """As if the driver had been killed after the last epoch was written and before Spark noted that."""
    commits = work / "checkpoint" / "commits"
    done = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit()) if commits.exists() else []
    if not done:
        return 0
    for name in (str(done[-1]), f".{done[-1]}.crc"):
        (commits / name).unlink(missing_ok=True)
    return 1


def _judge(own: World, session: rta_writers.Session, *, is_ordered: bool = True) -> Result:
    result = Result(counts=own.counts)
    result.ended[own.close(session, None).state.value] += 1
    result.verdict = own.judged(session)
    if not is_ordered:
        # Rows of one file are divided among partitions here, and those are written side by side.
        result.verdict = result.verdict.without_order()
    return result
