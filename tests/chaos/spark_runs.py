"""Runs of Spark in which tasks fail, run twice at once or lose their executors, and drivers are killed."""

import os
import signal
import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.parquet

import rta_writers
from tests.chaos import drivers, spark_job, stamps
from tests.chaos import world as chaos_world
from tests.chaos.checkpoint import Checkpoint
from tests.chaos.drivers import Driver
from tests.chaos.result import Result
from tests.chaos.world import World
from tests.support.waiting import wait_until

FILES_AHEAD: Final = 3
"""Files that wait for a driver which is about to be killed: it never runs out of them."""
FILE_ROWS: Final = 4000
MOMENTS: Final = ("planned", "written", "committed")
KILL_AFTER_S: Final = (0.0, 0.6)
FROZEN_S: Final = (0.1, 1.0)
FREEZES: Final = 0.3
"""Of those that are killed, how many are frozen before."""


def run_batches(
    seed: str, advance: Callable[[], None], *, runs: dict[str, int], delivery: str = "exactly-once"
) -> Result:
    """Batch jobs: names of runs of the job, with the partitions of each."""
    with chaos_world.running(seed, chaos_world.KEEPS, supervisors=1) as world:
        session = world.open("session", range(1))
        for name, partitions in runs.items():
            drivers.finish(world, session, name, partitions, delivery=delivery)
            advance()
        for name, marked in (("task failed", "failed-"), ("task doubled", "twin-")):
            world.counts[name] = len(list(world.directory.glob(f"{marked}*")))
        for harm in ("killed", "frozen"):
            world.counts[f"executor {harm}"] = len(list(world.directory.glob(f"{harm}-*")))
        return _judge(world, session)


def run_drivers(
    seed: str, advance: Callable[[], None], *, kills: int, delivery: str = "exactly-once", torn: float = 0.5
) -> Result:
    """A streaming query whose driver is killed again and again. `torn` is how often Spark forgets its last commit."""
    with chaos_world.running(seed, chaos_world.KEEPS, supervisors=1) as world:
        query = _Query(world, delivery)
        if not drivers.classes().exists():
            query.finish()
        for _ in range(2 * kills):
            query.kill()
            if world.chooser.random() < torn:
                world.counts["epoch replayed"] += query.checkpoint.tear_last_commit()
            if world.counts["driver killed"] == kills:
                break
            advance()
        query.finish()
        advance()
        return _judge(world, query.session)


class _Query:
    """A streaming query over files, with one driver after the other."""

    def __init__(self, world: World, delivery: str) -> None:
        self.session = world.open("session", range(1))
        self.checkpoint = Checkpoint(world.directory / "checkpoint")
        self._world = world
        self._delivery = delivery
        self._landed = 0

    def finish(self) -> None:
        self._land_ahead()
        drivers.finish(self._world, self.session, "stream", delivery=self._delivery)

    def kill(self) -> None:
        """A driver that gets as far as something new, and a little further. One that ended before is not counted."""
        self._land_ahead()
        world, choose = self._world, self._world.chooser
        moment, is_whole = choose.choice(MOMENTS), choose.random() < 0.5
        with drivers.driving(world, self.session, "stream", delivery=self._delivery) as driver:
            self._wait_for(moment, driver)
            if choose.random() < FREEZES:
                driver.signal(signal.SIGSTOP, is_whole=is_whole)
                time.sleep(choose.uniform(*FROZEN_S))
                driver.signal(signal.SIGCONT, is_whole=is_whole)
                world.counts["driver frozen"] += 1
            time.sleep(choose.uniform(*KILL_AFTER_S))
            if driver.exit_code is None:
                driver.kill(is_whole=is_whole)
                world.counts["driver killed"] += 1
                world.counts[f"driver killed after an epoch was {moment}"] += 1
                world.counts["driver killed without its workers"] += not is_whole
            else:
                assert driver.exit_code == 0, driver.tail_of_log()

    def _land_ahead(self) -> None:
        files = self.checkpoint.planned() + FILES_AHEAD
        _land(self._world, range(self._landed, files))
        self._landed = max(self._landed, files)

    def _wait_for(self, moment: str, driver: Driver) -> None:
        with self._world.client as client:
            counts: dict[str, Callable[[], int]] = {
                "planned": self.checkpoint.planned,
                "written": lambda: int(client.xlen(f"stream:{self.session.target.stream}")),
                "committed": self.checkpoint.committed,
            }
            before = counts[moment]()
            wait_until(
                lambda: counts[moment]() > before or driver.exit_code is not None,
                timeout_s=drivers.JOB_PATIENCE_S,
                what=f"an epoch that is {moment}",
            )


def run_repartitioned(seed: str, advance: Callable[[], None]) -> Result:
    """An epoch is replayed in another number of partitions: refused, or right where rows are staged."""
    total = Result(runs=0)
    for delivery in ("exactly-once", "staged"):
        with chaos_world.running(f"{seed}/{delivery}", chaos_world.KEEPS, supervisors=1) as world:
            session = world.open("session", range(1))
            _land(world, range(2))
            for partitions, exit_code in ((3, 0), (2, spark_job.REFUSED if delivery == "exactly-once" else 0), (3, 0)):
                drivers.finish(world, session, "stream", partitions, exit_code=exit_code, delivery=delivery)
                world.counts["epoch replayed"] += Checkpoint(world.directory / "checkpoint").tear_last_commit()
                if partitions == 2:
                    world.counts[f"other partitions: {'refused' if exit_code else 'staged anew'}"] += 1
            total.add(_judge(world, session, is_ordered=False))
        advance()
    total.runs = 1
    return total


def _land(world: World, epochs: range) -> None:
    """Files in the order of their names, as a recorder leaves them. They are acknowledged when the query has ended."""
    folder = world.directory / "in"
    folder.mkdir(exist_ok=True)
    for epoch in epochs:
        codes = stamps.codes(0, epoch, 0, FILE_ROWS)
        columns = {"channel": stamps.channels(codes).astype("int32"), "time": stamps.times_ns(codes)}
        path = folder / f"{epoch:04}.parquet"
        pyarrow.parquet.write_table(pa.table({**columns, "value": stamps.values(codes)}), path)
        os.utime(path, (epoch + 1, epoch + 1))
    with world.notes(0).open("a") as notes:
        notes.writelines(f"A 0 {epoch} 0 {FILE_ROWS}\n" for epoch in epochs)


def _judge(world: World, session: rta_writers.Session, *, is_ordered: bool = True) -> Result:
    result = Result(counts=world.counts)
    result.ended[world.close(session, None).state.value] += 1
    result.verdict = world.judged(session)
    if not is_ordered:
        # Rows of one file are divided among partitions here, and those are written side by side.
        result.verdict = result.verdict.without_order()
    return result
