"""What a benchmark is, and how it is run: our way and a reference take turns, and only their ratio counts.

A module in this folder becomes part of `python -m bench` by having functions named `bench_...`: each takes `quick`,
which asks for as little work as shows that it runs, and yields cases.
"""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Case(NamedTuple):
    """One row of the table. `ours` and `reference` do the work once and return a figure in `unit`."""

    name: str
    unit: str
    ours: Callable[[], float]
    reference: Callable[[], float]
    bar: float
    at_most: bool = False
    """Whether the ratio must stay under the bar instead of over it."""
    times: int = 1
    """Rounds for each one that is asked for: more where a median of few differs by what is left above the bar."""


class Result(NamedTuple):
    """What was measured: medians, and the range of the ratio over all rounds."""

    name: str
    ours: float
    reference: float
    ratio: float
    bar: float
    unit: str
    ratio_min: float
    ratio_max: float
    at_most: bool
    rounds: int

    @property
    def ok(self) -> bool:
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar


ROUND_S = 0.1
"""A round repeats its work until it took this long: shorter ones measure the scheduler."""


def per_second(
    amount: int, work: Callable[[], object], clock_s: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """A figure from work on so many things: how many of them a second."""

    def figure() -> float:
        started_s = clock_s()
        done, passed_s = 0, 0.0
        while passed_s < ROUND_S:
            work()
            done += amount
            passed_s = clock_s() - started_s
        return done / passed_s

    return figure


def per_cpu_second(amount: int, work: Callable[[], object]) -> Callable[[], float]:
    """The same in seconds of this process alone, for work that waits for nobody: other work beside it counts less."""
    return per_second(amount, work, time.process_time)


def constant(value: float) -> Callable[[], float]:
    """A reference that is a number."""
    return lambda: value


def run(case: Case, rounds: int) -> Result:
    """Interleaved rounds after one that does not count. Who goes first changes, so that neither gains from it."""
    case.ours()
    case.reference()
    pairs = []
    for turn in range(rounds * case.times):
        if turn % 2:
            reference = case.reference()
            ours = case.ours()
        else:
            ours = case.ours()
            reference = case.reference()
        pairs.append((ours, reference))
    ratios = [ours / reference for ours, reference in pairs]
    return Result(
        name=case.name,
        ours=statistics.median(ours for ours, _ in pairs),
        reference=statistics.median(reference for _, reference in pairs),
        ratio=statistics.median(ratios),
        bar=case.bar,
        unit=case.unit,
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        at_most=case.at_most,
        rounds=len(pairs),
    )
