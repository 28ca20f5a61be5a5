"""Appends that happen at least once: plain XADD, many at a time. What is tried again is written again."""

import redis

from rta_wire import keys
from rta_wire.control.totals import Mark, Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.control import resolve
from rta_writers.options.target import Target
from rta_writers.write import sink
from rta_writers.write.sink import SinkBase


class AtLeastOnceAppender(SinkBase):
    """Appends the rows of one unit in one epoch without looking back. Nothing fails where a twin writes the same."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        super().__init__(client, target)
        self._unit = keys.check_unit(unit)
        self._epoch = epoch
        self._totals: Totals | None = None
        self._group: sink.PendingGroup | None = None
        self._pending_replies: int | None = None
        self._group_totals = Totals()

    def append(
        self,
        rows: int,
        encode: sink.Encode,
        fingerprint: sink.Fingerprint = sink.no_fingerprint,
    ) -> None:
        """The next rows. Those before them stand in the stream when this returns."""
        bursts = list(encode(0))
        self.flush()
        self._group = sink.PendingGroup(rows, lambda _: bursts, fingerprint)
        self._pipeline.with_retries(self._send_group, self._reset)

    def flush(self) -> None:
        """Everything that was appended stands in the stream when this returns."""
        if self._group is not None:
            self._pipeline.with_retries(self._complete, self._reset)

    def known_totals(self) -> Totals:
        return self._totals or Totals()

    def totals(self) -> Totals:
        """What attempts of the unit have written, this one included; twins at the same time count once."""
        self.flush()
        return self._totals if self._totals is not None else self._pipeline.with_retries(self._read, self._reset)

    def _read(self) -> Totals:
        gate, mark = self._pipeline.execute([("GET", self._gate), ("HGET", self._marks, self._unit)])
        if gate != resolve.GATE_OPEN:
            raise resolve.closed_error(gate, self._target)
        return Totals() if mark is None else Mark.from_text(mark.decode()).totals

    def _send_group(self) -> None:
        assert self._group is not None
        if self._totals is None:
            self._totals = self._read()
        calls: list[connection_pipeline.Command] = []
        self._group_totals = Totals()
        for burst in self._group.encode(0):
            entry = (keys.ENTRY_ID, self._target.stream_session_id, keys.ENTRY_DATA, burst.data)
            calls.append(("XADD", self._stream, "*", *entry))
            self._group_totals = self._group_totals.with_burst(burst)
        mark = Mark(self._epoch, self.rows_done + self._group.rows, self._totals.sum_of(self._group_totals))
        calls += [
            ("HSET", self._marks, self._unit, mark.text()),
            ("EXPIRE", self._marks, sink.MARK_TTL_S),
            ("GET", self._gate),
        ]
        self._pipeline.send(calls)
        self._pending_replies = len(calls)

    def _complete(self) -> None:
        if self._pending_replies is None:
            self._send_group()
        count, self._pending_replies = self._pending_replies, None
        assert count is not None
        assert self._group is not None
        *_, gate = self._pipeline.receive(count)
        self.rows_done += self._group.rows
        self.written = self.written.sum_of(self._group_totals)
        self._group, self._totals = None, self.known_totals().sum_of(self._group_totals)
        if gate != resolve.GATE_OPEN:
            raise resolve.closed_error(gate, self._target)

    def _reset(self) -> None:
        self._pending_replies = None
