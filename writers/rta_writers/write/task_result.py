"""The result of a task: what it wrote to each session, and its counters. It goes from the task to the commit."""

import msgspec

from rta_wire.control.totals import Totals
from rta_writers.options.target import Target


class StagedAttempt(msgspec.Struct, frozen=True):
    """Bursts that one attempt staged for one session. Stored as JSON in the manifest of an epoch."""

    attempt: str
    bursts: int


class SessionPart(msgspec.Struct, frozen=True):
    """What a unit wrote to one session: rows of this epoch, and the totals of all epochs."""

    target: Target
    rows: int
    totals: Totals
    staged: StagedAttempt | None = None


class TaskStats(msgspec.Struct, frozen=True):
    """Counters of one attempt, duplicates and repetitions included."""

    rows: int = 0
    samples: int = 0
    bursts: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    retries: int = 0
    duplicate_rows: int = 0


class TaskResult(msgspec.Struct, frozen=True):
    """What a task that succeeded has written: a part for each session, and counters."""

    unit: str
    epoch: int
    shares: tuple[SessionPart, ...] = ()
    effort: TaskStats = TaskStats()
