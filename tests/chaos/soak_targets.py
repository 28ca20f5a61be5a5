"""How much a soak has to hold before its figures say something, by the part that brings it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.result import Outcome, totals

SAMPLES: Final = "samples read where Redis kept its data"
SOAK: Final[Mapping[str, Mapping[str, int]]] = {
    "storm": {"supervisor killed": 200, "redis killed": 100, "replies cut": 2000, SAMPLES: 20_000_000},
    "losses": {"empty restart": 20, "stale snapshot": 20, "flushall": 20, "failover": 20},
    "Sentinel failovers": {"Sentinel failover": 20},
    "Spark drivers": {"driver killed": 50, "driver frozen": 10, "epoch replayed": 20},
    "Spark tasks": {"task failed": 200},
    "Spark twins": {"task doubled": 20},
    "Spark executors": {"executor killed": 5, "executor frozen": 5},
    "Spark with other partitions": {"other partitions: refused": 1, "other partitions: staged anew": 1},
}


@dataclass(frozen=True)
class Aim:
    """How often something was to happen, and did."""

    name: str
    wanted: int
    found: int

    @property
    def is_reached(self) -> bool:
        return self.found >= self.wanted


def of(size: str, outcomes: Sequence[Outcome]) -> list[Aim]:
    """The aims of all parts that were run. Only a soak has any."""
    if size != "soak":
        return []
    counts = totals(outcomes)
    counts[SAMPLES] = sum(
        outcome.result.verdict.samples for outcome in outcomes if not (outcome.is_control or outcome.result.lossy)
    )
    parts = {outcome.name for outcome in outcomes}
    return [
        Aim(name, wanted, counts[name]) for part, aims in SOAK.items() if part in parts for name, wanted in aims.items()
    ]
