"""Totals of what a unit of writing has appended so far, and its mark: the totals with the last row that they include.

Totals are cumulative: merging reports of a unit in any order and any number of times gives the same result.
"""

from typing import Final, Self

import msgspec

from rta_wire import errors, limits, session
from rta_wire.codec.burst import Burst
from rta_wire.pb import control_pb2

_NO_TIME: Final = "-"

EVERY_ROW: Final = 2**63 - 1
COUNT_MAX: Final = 2**64 - 1
QUOTED_TEXT_MAX_CHARS: Final = 100


class Totals(msgspec.Struct, frozen=True):
    """Numbers of bursts, samples and bytes, and the range of sample times. Counts only grow, the range only widens."""

    bursts: int = 0
    samples: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    start_ns: int | None = None
    end_ns: int | None = None

    def with_burst(self, burst: Burst) -> Self:
        """These totals with one more burst."""
        span = _union(self.time_range_ns, (burst.start_ns, burst.end_ns) if burst.samples or burst.events else None)
        return type(self)(
            self.bursts + 1,
            self.samples + burst.samples,
            self.raw_bytes + burst.raw_bytes,
            self.stored_bytes + len(burst.data),
            *(span or (None, None)),
        )

    def max_of(self, other: "Totals") -> Self:
        """The later of two reports of one unit, whichever arrived first."""
        if self.dominates(other):
            return self
        span = _union(self.time_range_ns, other.time_range_ns)
        return type(self)(
            max(self.bursts, other.bursts),
            max(self.samples, other.samples),
            max(self.raw_bytes, other.raw_bytes),
            max(self.stored_bytes, other.stored_bytes),
            *(span or (None, None)),
        )

    def dominates(self, other: "Totals") -> bool:
        """Whether merging the other would change nothing, as it is with reports that arrive in order."""
        if (
            self.bursts < other.bursts
            or self.samples < other.samples
            or self.raw_bytes < other.raw_bytes
            or self.stored_bytes < other.stored_bytes
        ):
            return False
        if other.start_ns is None or other.end_ns is None:
            return True
        if self.start_ns is None or self.end_ns is None:
            return False
        return self.start_ns <= other.start_ns and self.end_ns >= other.end_ns

    def sum_of(self, other: "Totals") -> Self:
        """The totals of two units together."""
        span = _union(self.time_range_ns, other.time_range_ns)
        return type(self)(
            self.bursts + other.bursts,
            self.samples + other.samples,
            self.raw_bytes + other.raw_bytes,
            self.stored_bytes + other.stored_bytes,
            *(span or (None, None)),
        )

    def has_arrived(self, expected: "Totals") -> bool:
        """Whether these totals include as many bursts and samples as are expected."""
        return self.bursts >= expected.bursts and self.samples >= expected.samples

    def missing_from(self, expected: "Totals") -> "Totals | None":
        """The bursts and samples that are expected and not in these totals, None where none are missing."""
        bursts, samples = max(0, expected.bursts - self.bursts), max(0, expected.samples - self.samples)
        return Totals(bursts, samples) if bursts or samples else None

    def is_comparable(self, other: "Totals") -> bool:
        """Whether two totals can be reports of one unit: one of them is ahead in no count."""
        is_ahead = (
            self.bursts > other.bursts
            or self.samples > other.samples
            or self.raw_bytes > other.raw_bytes
            or self.stored_bytes > other.stored_bytes
        )
        is_behind = (
            self.bursts < other.bursts
            or self.samples < other.samples
            or self.raw_bytes < other.raw_bytes
            or self.stored_bytes < other.stored_bytes
        )
        return not (is_ahead and is_behind)

    @property
    def time_range_ns(self) -> tuple[int, int] | None:
        return None if self.start_ns is None or self.end_ns is None else (self.start_ns, self.end_ns)

    def describe(self) -> str:
        """For people: what was written and from when to when."""
        counts = f"{self.samples} samples in {self.bursts} bursts"
        if self.time_range_ns is None:
            return counts
        start, end = map(session.iso_from_ns, self.time_range_ns)
        return f"{counts} from {start} to {end}"

    def to_strings(self) -> list[str]:
        """The numbers as decimal strings, which is how Redis and Lua keep them: nanoseconds do not fit a double."""
        return [_NO_TIME if number is None else str(number) for number in msgspec.structs.astuple(self)]

    @classmethod
    def from_strings(cls, numbers: list[str]) -> Self:
        """From the decimal strings that `to_strings` gives."""
        try:
            bursts, samples, raw_bytes, stored_bytes, start_ns, end_ns = (
                None if number == _NO_TIME else int(number) for number in numbers
            )
        except ValueError as error:
            raise errors.BadMessage(reason=f"{' '.join(numbers)[:QUOTED_TEXT_MAX_CHARS]!r} are not totals") from error
        if min(counts := (bursts or 0, samples or 0, raw_bytes or 0, stored_bytes or 0)) < 0 or max(counts) > COUNT_MAX:
            raise errors.BadMessage(reason=f"{counts!r} are impossible totals")
        if any(not limits.TIME_NS_MIN <= ns <= limits.TIME_NS_MAX for ns in (start_ns or 0, end_ns or 0)):
            raise errors.BadMessage(reason=f"{start_ns} to {end_ns} is an impossible time range")
        return cls(bursts or 0, samples or 0, raw_bytes or 0, stored_bytes or 0, start_ns, end_ns)

    def to_message(self) -> control_pb2.Totals:
        return control_pb2.Totals(
            bursts=self.bursts,
            samples=self.samples,
            raw_bytes=self.raw_bytes,
            stored_bytes=self.stored_bytes,
            start_time=self.start_ns,
            end_time=self.end_ns,
        )

    @classmethod
    def from_message(cls, message: control_pb2.Totals) -> Self:
        start_ns, end_ns = message.start_time, message.end_time
        # A time other than 0 is present: HasField costs as much as reading.
        has_range = (start_ns or message.HasField("start_time")) and (end_ns or message.HasField("end_time"))
        counts = (message.bursts, message.samples, message.raw_bytes, message.stored_bytes)
        return cls(*counts, start_ns, end_ns) if has_range else cls(*counts)


class Mark(msgspec.Struct, frozen=True):
    """How far a unit has come: the first `rows` rows of `epoch` are in the stream, and all rows of earlier epochs.

    Rows are counted and not bursts, because a task that is interrupted ends in a shorter burst than its next attempt.
    """

    epoch: int = -1
    rows: int = 0
    totals: Totals = Totals()

    def text(self) -> str:
        """The mark as a line of decimal numbers, which is how Redis keeps it."""
        return " ".join([str(self.epoch), str(self.rows), *self.totals.to_strings()])

    @classmethod
    def from_text(cls, text: str) -> Self:
        try:
            epoch, rows, *totals = text.split()
            return cls(int(epoch), int(rows), Totals.from_strings(totals))
        except ValueError as error:
            raise errors.BadMessage(reason=f"{text[:QUOTED_TEXT_MAX_CHARS]!r} is not a mark") from error

    def rows_done(self, epoch: int) -> int:
        """How many rows of an epoch are in the stream: none of a later epoch, every one of an earlier one."""
        if epoch == self.epoch:
            return self.rows
        return 0 if epoch > self.epoch else EVERY_ROW


def _union(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    """The smallest range that holds two ranges, either of which may be missing."""
    if a is None or b is None:
        return a or b
    return min(a[0], b[0]), max(a[1], b[1])
