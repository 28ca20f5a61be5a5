"""What came out of runs, added up."""

import copy
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.chaos.attacks.figures import Figure
from tests.chaos.oracle import Verdict


@dataclass
class Result:
    """One run, or several of a kind."""

    counts: Counter[str] = field(default_factory=Counter)
    """Faults and other things that happened, by name."""

    ended: Counter[str] = field(default_factory=Counter)
    """Sessions by the state in which they ended."""

    verdict: Verdict = field(default_factory=Verdict)
    is_tail_right: bool = True
    """Whether a reader that followed all the time saw the entries that stand there at the end, in that order."""

    lossy: int = 0
    """Sessions of which acknowledged samples are gone."""

    unreported: int = 0
    """Of those, how many nobody was told of."""

    false_alarms: int = 0
    """Sessions that are whole and were called truncated."""

    figures: list[Figure] = field(default_factory=list)
    """What attacks did to others."""

    runs: int = 1
    seconds: float = 0.0

    def add(self, other: "Result") -> None:
        self.counts += other.counts
        self.ended += other.ended
        self.verdict += other.verdict
        self.is_tail_right = self.is_tail_right and other.is_tail_right
        self.lossy += other.lossy
        self.unreported += other.unreported
        self.false_alarms += other.false_alarms
        self.figures = [*self.figures, *other.figures]
        self.runs += other.runs
        self.seconds += other.seconds


@dataclass(frozen=True)
class Outcome:
    """The runs of one part, and what is wrong with them."""

    name: str
    is_control: bool
    result: Result
    complaint: str


def totals(outcomes: Iterable[Outcome]) -> Counter[str]:
    """What happened, in all parts that are no controls."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        if not outcome.is_control:
            counts += outcome.result.counts
    return counts


def merged(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those of one name as one."""
    by_name: dict[str, Outcome] = {}
    for outcome in outcomes:
        if (before := by_name.get(outcome.name)) is None:
            by_name[outcome.name] = replace(outcome, result=copy.deepcopy(outcome.result))
        else:
            before.result.add(outcome.result)
            by_name[outcome.name] = replace(before, complaint=before.complaint or outcome.complaint)
    return list(by_name.values())
