"""Appends that happen at least once: plain XADD, many at a time. What is tried again is written again."""

import redis

from rta_wire import keys
from rta_wire.control.totals import Mark, Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.options.target import Target
from rta_writers.write import exactly_once
from rta_writers.write.sink import Attempt


class PlainAppender(Attempt):
    """Appends the rows of one unit in one epoch without looking back. Nothing fails where a twin writes the same."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        super().__init__(client, target)
        self._unit = keys.check_unit(unit)
        self._epoch = epoch
        self._totals: Totals | None = None
        self._group: exactly_once.Group | None = None
        self._flight: int | None = None
        self._adding = Totals()

    def append(
        self,
        rows: int,
        encode: exactly_once.Encode,
        fingerprint: exactly_once.Fingerprint = exactly_once.no_fingerprint,
    ) -> None:
        """The next rows. Those before them stand in the stream when this returns."""
        bursts = list(encode(0))
        self.flush()
        self._group = exactly_once.Group(rows, lambda _: bursts, fingerprint)
        self._talk.patiently(self._launch, self._forget)

    def flush(self) -> None:
        """Everything that was appended stands in the stream when this returns."""
        if self._group is not None:
            self._talk.patiently(self._complete, self._forget)

    def known_totals(self) -> Totals:
        return self._totals or Totals()

    def totals(self) -> Totals:
        """What attempts of the unit have written, this one included; twins at the same time count once."""
        self.flush()
        return self._totals if self._totals is not None else self._talk.patiently(self._read, self._forget)

    def _read(self) -> Totals:
        gate, mark = self._talk.ask([("GET", self._gate), ("HGET", self._marks, self._unit)])
        connection_pipeline.check_gate(gate, self._target)
        return Totals() if mark is None else Mark.from_text(mark.decode()).totals

    def _launch(self) -> None:
        assert self._group is not None
        if self._totals is None:
            self._totals = self._read()
        calls: list[connection_pipeline.Call] = []
        self._adding = Totals()
        for burst in self._group.encode(0):
            entry = (keys.ENTRY_ID, self._target.stream_session_id, keys.ENTRY_DATA, burst.data)
            calls.append(("XADD", self._stream, "*", *entry))
            self._adding = self._adding.plus(burst)
        mark = Mark(self._epoch, self.row + self._group.rows, self._totals.added(self._adding))
        calls += [
            ("HSET", self._marks, self._unit, mark.text()),
            ("EXPIRE", self._marks, exactly_once.MARK_TTL_S),
            ("GET", self._gate),
        ]
        self._talk.send(calls)
        self._flight = len(calls)

    def _complete(self) -> None:
        if self._flight is None:
            self._launch()
        count, self._flight = self._flight, None
        assert count is not None
        assert self._group is not None
        *_, gate = self._talk.receive(count)
        self.row += self._group.rows
        self.written = self.written.added(self._adding)
        self._group, self._totals = None, self.known_totals().added(self._adding)
        connection_pipeline.check_gate(gate, self._target)

    def _forget(self) -> None:
        self._flight = None
