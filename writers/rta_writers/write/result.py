"""What a task did: parts of sessions, counters, and the result that goes to the commit."""

import msgspec

from rta_wire.control.totals import Totals
from rta_writers.options.target import Target
from rta_writers.write import staged as write_staged


class SessionPart(msgspec.Struct, frozen=True):
    """What a unit wrote to one session: in this epoch so many rows, in all so much."""

    target: Target
    rows: int
    totals: Totals
    staged: write_staged.StagedAttempt | None = None


class TaskStats(msgspec.Struct, frozen=True):
    """What one attempt did, duplicates and repetitions included."""

    rows: int = 0
    samples: int = 0
    bursts: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    retries: int = 0
    duplicate_rows: int = 0


class TaskResult(msgspec.Struct, frozen=True):
    """What a task has to say when it is done."""

    unit: str
    epoch: int
    shares: tuple[SessionPart, ...] = ()
    effort: TaskStats = TaskStats()
