"""What came out of runs: added up, judged, and shown as tables."""

from collections import Counter
from dataclasses import dataclass, field

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
        self.runs += other.runs
        self.seconds += other.seconds
