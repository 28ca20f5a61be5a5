"""The rows of one session on their way through a task: those that wait, those that were sent, what was reported."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rta_wire.codec.columns import RowBatcher
from rta_wire.control.totals import Totals
from rta_writers.options.target import Target
from rta_writers.write.delivery.appender import Appender
from rta_writers.write.ticks import Tick


class SessionSender:
    """The rows of one session on their way: gathered into groups, then sent to its appender."""

    def __init__(self, target: Target, stream: str, appender: Appender, batcher: RowBatcher) -> None:
        self.target = target
        self.stream = stream
        """The stream that was asked for; with a stream per day that of the target has a day in its name."""
        self.appender = appender
        self.tick: Tick | None = None
        """Rows that wait and are a tick, where no others wait."""
        self.next_row = 0
        self.reported = Totals()
        self._batcher = batcher

    @property
    def waiting_rows(self) -> int:
        """Rows that are not sent so far."""
        return self._batcher.waiting_rows if self.tick is None else self.tick.num_rows

    @property
    def unwritten_rows(self) -> int:
        """Rows that are not known to be written."""
        return self.waiting_rows + self.next_row - self.appender.rows_done

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take more rows. Gives the groups that are full now."""
        if self.tick is not None:
            tick, self.tick = self.tick, None
            yield from self._batcher.add(tick.to_batch())
        yield from self._batcher.add(rows)

    def drain(self) -> Iterable[pa.RecordBatch | Tick]:
        """Gives the rows that wait."""
        if self.tick is None:
            return self._batcher.drain()
        tick, self.tick = self.tick, None
        return (tick,)

    @property
    def is_unreported(self) -> bool:
        """Whether the supervisor has to be told more than it was, now or once the group under way is written."""
        return self.appender.is_under_way or self.unreported_totals() is not None

    def unreported_totals(self) -> Totals | None:
        """What is known to be written, None where that was reported, or where nothing is of this attempt."""
        totals = self.appender.known_totals()
        return totals if self.appender.rows_done and totals != self.reported else None
