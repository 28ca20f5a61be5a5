"""Appends that happen at least once: XADD without a transaction. Rows that are tried again are written again."""

import redis

from rta_wire import keys, name_checks
from rta_wire.codec.burst import Burst
from rta_wire.control.totals import Mark, Totals
from rta_writers.connection.pipeline import Command
from rta_writers.control import session_resolver
from rta_writers.options.target import Target
from rta_writers.write.delivery import appender


class AtLeastOnceAppender(appender.Appender):
    """Appends the rows of one unit in one epoch. Another attempt at the same rows does not make it fail."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        super().__init__(client, target)
        self._unit = name_checks.check_unit(unit)
        self._epoch = epoch
        self._unit_totals: Totals | None = None
        self._group_rows = 0
        self._group_bursts: list[Burst] | None = None
        self._group_totals = Totals()
        self._pending_replies: int | None = None

    def append(
        self,
        rows: int,
        encode_rows: appender.EncodeRows,
        fingerprint_rows: appender.FingerprintRows = appender.no_fingerprint,  # noqa: ARG002 - rows are not compared
    ) -> None:
        bursts = list(encode_rows(0))
        self.flush()
        self._group_rows, self._group_bursts = rows, bursts
        self._pipeline.with_retries(self._send_group, self._reset)

    @property
    def is_under_way(self) -> bool:
        return self._group_bursts is not None

    def flush(self) -> None:
        if self._group_bursts is not None:
            self._pipeline.with_retries(self._complete, self._reset)

    def known_totals(self) -> Totals:
        return self._unit_totals or Totals()

    def totals(self) -> Totals:
        """What all attempts at the unit have written, this one included; attempts at the same time count once."""
        self.flush()
        if self._unit_totals is not None:
            return self._unit_totals
        return self._pipeline.with_retries(self._read_totals, self._reset)

    def _read_totals(self) -> Totals:
        gate, mark = self._pipeline.execute([("GET", self._gate), ("HGET", self._marks, self._unit)])
        if gate != session_resolver.GATE_OPEN:
            raise session_resolver.closed_error(gate, self._target)
        return Totals() if mark is None else Mark.from_text(mark.decode()).totals

    def _send_group(self) -> None:
        assert self._group_bursts is not None
        if self._unit_totals is None:
            self._unit_totals = self._read_totals()
        commands: list[Command] = []
        self._group_totals = Totals()
        for burst in self._group_bursts:
            fields = (keys.ENTRY_ID, self._target.stream_session_id, keys.ENTRY_DATA, burst.data)
            commands.append(("XADD", self._stream, "*", *fields))
            self._group_totals = self._group_totals.with_burst(burst)
        mark = Mark(self._epoch, self.rows_done + self._group_rows, self._unit_totals.sum_of(self._group_totals))
        commands += [
            ("HSET", self._marks, self._unit, mark.text()),
            ("EXPIRE", self._marks, appender.MARK_TTL_S),
            ("GET", self._gate),
        ]
        self._pipeline.send(commands)
        self._pending_replies = len(commands)

    def _complete(self) -> None:
        if self._pending_replies is None:
            self._send_group()
        count, self._pending_replies = self._pending_replies, None
        assert count is not None
        *_, gate = self._pipeline.receive(count)
        self.rows_done += self._group_rows
        self.written = self.written.sum_of(self._group_totals)
        self._unit_totals = self.known_totals().sum_of(self._group_totals)
        self._group_bursts = None
        if gate != session_resolver.GATE_OPEN:
            raise session_resolver.closed_error(gate, self._target)

    def _reset(self) -> None:
        self._pending_replies = None
