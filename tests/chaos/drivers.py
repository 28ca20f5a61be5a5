"""Spark drivers as processes that can be frozen and killed, alone or with all that belongs to them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

import rta_writers
from rta_supervisor.embedded import java
from tests.chaos import die_with_parent
from tests.chaos.world import World

JOB_PATIENCE_S: Final = 1800
LAST_WORDS: Final = 3000
ROOT: Final = Path(__file__).parents[2]


class Driver:
    """One Spark driver: a Python process, its JVM, and workers that have groups of their own."""

    def __init__(self, world: World, session: rta_writers.Session, run: str, count: int, **options: str) -> None:
        self._log_path = world.directory / "spark.log"
        writer_options = {**session.options, "redisUrl": world.patient_url, **options}
        command = [
            *(sys.executable, "-m", "tests.chaos.spark_job", run),
            *(f"{name}={value}" for name, value in writer_options.items()),
            *("--work", str(world.directory), "--notes", str(world.notes(0)), "--count", str(count)),
            *("--classes", str(classes())),
        ]
        environment = {
            **os.environ,
            **java.spark_environment(),
            **die_with_parent.environment(),
            "PYTHONPATH": str(ROOT),
        }
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def signal(self, number: int, *, is_whole: bool) -> None:
        """To the driver and its JVM; where `is_whole` to the workers as well."""
        if self.exit_code is not None:
            return
        workers = _descendants(self._process.pid) if is_whole else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, *, is_whole: bool = True) -> None:
        self.signal(signal.SIGKILL, is_whole=is_whole)
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(JOB_PATIENCE_S)

    def tail_of_log(self) -> str:
        return self._log_path.read_text(errors="replace")[-LAST_WORDS:]


@contextlib.contextmanager
def driving(world: World, session: rta_writers.Session, run: str, count: int = 0, **options: str) -> Iterator[Driver]:
    driver = Driver(world, session, run, count, **options)
    try:
        yield driver
    finally:
        driver.kill()


def finish(
    world: World, session: rta_writers.Session, run: str, count: int = 0, *, exit_code: int = 0, **options: str
) -> None:
    """A driver that nobody harms, to its end."""
    with driving(world, session, run, count, **options) as driver:
        assert driver.wait() == exit_code, driver.tail_of_log()


def classes() -> Path:
    """An archive of classes, left by the first JVM that ends by itself. Others start in half the time with it.

    A JVM that finds the archive of another one there does without.
    """
    return ROOT / "build" / f"classes-{pyspark.__version__}-{java.find().home.name}.jsa"


def _descendants(pid: int) -> list[int]:
    """Children, their children and so on, as they are now."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    family = [pid]
    for ancestor in family:
        family += children.get(ancestor, [])
    return family[1:]
