"""What a run of the harness consists of: kinds of runs, how many of each, and what each has to show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.chaos import closing, failovers, losses, spark_runs, storm, viewers
from tests.chaos.attacks import attackers, figures, measured, mix
from tests.chaos.result import Result

FAILOVERS_OF_A_ROUND: Final = 5
VIEWER_FAULTS: Final = 5
AT_LEAST_ONCE: Final = "at-least-once"

Advance = Callable[[], None]
Run = Callable[[str, Advance], Result]
Demand = Callable[[Result], str]
"""What is wrong with a result; nothing where it is as it should be."""


@dataclass(frozen=True)
class Part:
    """Some runs of one kind."""

    name: str
    run: Run
    times: int
    faults: int
    """Of one run, for the progress bar."""

    demand: Demand
    is_control: bool = False


def each_once(result: Result) -> str:
    """Redis kept its data: so everything is there, once, in order, and every session is complete."""
    if not result.verdict.is_clean:
        return f"acknowledged samples are not there once each: {result.verdict}"
    if not result.is_tail_right:
        return "a reader that followed all the time saw something else than what stands there"
    if set(result.ended) != {"closed"}:
        return f"sessions that miss nothing ended as {dict(result.ended)}"
    return "" if result.verdict.samples else "nothing was written"


def none_silent(result: Result) -> str:
    """Redis lost data: every loss was reported, and nothing stands there twice."""
    if result.unreported:
        return f"{result.unreported} of {result.lossy} sessions lost samples and nobody was told"
    if result.verdict.duplicated or result.verdict.mangled:
        return f"samples stand there twice or are broken: {result.verdict}"
    return "" if result.lossy else "nothing was lost: the harness injects nothing"


def doubles(result: Result) -> str:
    return "" if result.verdict.duplicated else "nothing was doubled: the harness injects nothing"


def loses(result: Result) -> str:
    return "" if result.verdict.lost else "nothing was lost: the harness injects nothing"


def stays_silent(result: Result) -> str:
    return "" if result.unreported else "every loss was reported without our writers: the harness injects nothing"


def keeps_limits(result: Result) -> str:
    """An attack on one host: every figure of its victims keeps its limit, and their samples are there once each."""
    if not result.verdict.is_clean:
        return f"samples of victims are not there once each: {result.verdict}"
    return figures.complaint(result.figures) or ("" if result.verdict.samples else "nothing was written")


def _storm(fraction: float, *, is_plain: bool = False) -> tuple[Run, int]:
    faults = {name: max(1, round(count * fraction)) for name, count in storm.FAULTS.items()}
    return partial(storm.run, faults=faults, is_plain=is_plain), sum(faults.values())


def _losses(kinds: Sequence[str], *, is_plain: bool = False) -> tuple[Run, int]:
    return partial(losses.run, kinds=tuple(kinds), is_plain=is_plain), len(kinds)


def _closing(closes: int, *, barrier: bool, is_plain: bool = False) -> tuple[Run, int]:
    return partial(closing.run, closes=closes, barrier=barrier, is_plain=is_plain), closes


def parts(size: str) -> list[Part]:
    """Everything that a run of a size does, in order."""
    return {"short": _short, "chaos": _chaos, "soak": _soak}[size]()


def _short() -> list[Part]:
    return [
        _part("storm", _storm(0.1), 1, each_once),
        _part("losses", _losses(losses.KINDS), 1, none_silent),
        _part("closing", _closing(1, barrier=True), 1, each_once),
        _part("plain XADD in a storm", _storm(0.05, is_plain=True), 1, doubles, is_control=True),
        _part("plain XADD, no barrier", _closing(1, barrier=False, is_plain=True), 1, loses, is_control=True),
        _part("plain XADD, losses", _losses(losses.KINDS[:1], is_plain=True), 1, stays_silent, is_control=True),
    ]


def _chaos() -> list[Part]:
    return [
        *_full(storms=2, loss_rounds=2, failover_rounds=1, closes=3),
        *_spark(rounds=1, kills=2, partitions=6),
        *_attacks(mixed_s=60),
        _part("viewers", (viewers.run, VIEWER_FAULTS), 1, each_once),
    ]


def _soak() -> list[Part]:
    return [
        *_full(storms=26, loss_rounds=20, failover_rounds=5, closes=20),
        *_spark(rounds=5, kills=9, partitions=21),
        *_attacks(mixed_s=1800),
        _part("viewers", (partial(viewers.run, bursts=20_000), VIEWER_FAULTS), 3, each_once),
    ]


def _attacks(*, mixed_s: float) -> list[Part]:
    """Each attack of one principal on all others at full size, and a mix of them for so long."""
    return [
        *(
            _part(f"attack: {name}", (partial(measured.run, name=name), 1), 1, keeps_limits)
            for name in attackers.ATTACKS
        ),
        _part("attacks mixed", (partial(mix.run, lasting_s=mixed_s), 1), 1, keeps_limits),
    ]


def _spark(*, rounds: int, kills: int, partitions: int) -> list[Part]:
    """Runs with a real Spark. A query's driver is killed `kills` times in a run, and each of the tasks fails twice."""
    doubled, harmed = {"twins": partitions}, {"executors": max(3, partitions // 3)}
    return [
        _part("Spark drivers", _drivers(kills), rounds, each_once),
        _part("Spark drivers, staged", _drivers(kills, delivery="staged"), 1, each_once),
        _part("Spark tasks", _batches({"tasks": partitions}), rounds, each_once),
        _part("Spark twins", _batches(doubled), 1, each_once),
        _part("Spark executors", _batches(harmed), 1, each_once),
        _part("Spark with other partitions", (spark_runs.run_repartitioned, 2), max(1, rounds // 2), each_once),
        _part("Spark tasks, at least once", _batches({"tasks": 4}, AT_LEAST_ONCE), 1, doubles, is_control=True),
        _part("Spark drivers, at least once", _drivers(2, AT_LEAST_ONCE, torn=1), 1, doubles, is_control=True),
    ]


def _drivers(kills: int, delivery: str = "exactly-once", torn: float = 0.5) -> tuple[Run, int]:
    return partial(spark_runs.run_drivers, kills=kills, delivery=delivery, torn=torn), kills


def _batches(runs: dict[str, int], delivery: str = "exactly-once") -> tuple[Run, int]:
    return partial(spark_runs.run_batches, runs=runs, delivery=delivery), len(runs)


def _full(*, storms: int, loss_rounds: int, failover_rounds: int, closes: int) -> list[Part]:
    failing = partial(failovers.run, failovers=FAILOVERS_OF_A_ROUND), FAILOVERS_OF_A_ROUND
    return [
        _part("storm", _storm(1), storms, each_once),
        _part("losses", _losses(losses.KINDS), loss_rounds, none_silent),
        _part("Sentinel failovers", failing, failover_rounds, none_silent),
        _part("closing", _closing(closes, barrier=True), 1, each_once),
        _part("plain XADD in a storm", _storm(0.25, is_plain=True), 1, doubles, is_control=True),
        _part("plain XADD, no barrier", _closing(2, barrier=False, is_plain=True), 1, loses, is_control=True),
        _part("plain XADD, losses", _losses(losses.KINDS, is_plain=True), 1, stays_silent, is_control=True),
    ]


def _part(name: str, run: tuple[Run, int], times: int, demand: Demand, *, is_control: bool = False) -> Part:
    return Part(name, run[0], times, run[1], demand, is_control)
