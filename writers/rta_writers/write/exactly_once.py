"""Appends that happen once: each row of a unit stands in the stream once, however often it is tried.

A unit's mark says how many rows of an epoch stand in the stream. Mark and bursts change in one transaction. Watched
keys make it fail where a twin of this writer was faster (the fence changed) or the session was closed in between (the
gate changed). After a failure, and after a lost connection, the mark tells what stands there, and only the rest is
encoded and sent. So attempts need the same rows in the same order; they need not cut them into the same bursts. The
fence holds a fingerprint of the rows that stand there, so that an attempt with other rows is refused and not mixed in.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import redis

from rta_wire import errors, keys
from rta_wire.codec.encode import Burst
from rta_wire.control.totals import EVERY_ROW, Mark, Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.control import resolve
from rta_writers.options.target import Target
from rta_writers.write import acknowledged, sink
from rta_writers.write.sink import SinkBase

_ALL_BITS: Final = 2**64 - 1


class ExactlyOnceAppender(SinkBase):
    """Appends the rows of one unit in one epoch, group by group. While one is under way the next is encoded."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        super().__init__(client, target)
        self._unit = keys.check_unit(unit)
        self._epoch = epoch
        self._mark: Mark | None = None
        self._stored_fingerprint: int | None = None
        self._gate_state: bytes | None = None
        self._group: sink.PendingGroup | None = None
        self._encoded_ahead: Sequence[Burst] | None = None
        self._pending_replies: int | None = None
        self._standing = 0
        self._group_totals = Totals()
        self._fingerprint = self._next_fingerprint = 0
        self._known = Totals()
        self._place = acknowledged.UnitKey(target.redis_url, target.identity, self._marks, self._unit)
        self._fence = target.keys.fence(target.stream, target.stream_session_id, self._unit)

    def append(self, rows: int, encode: sink.Encode, fingerprint: sink.Fingerprint = sink.no_fingerprint) -> None:
        """The next rows of the epoch. Those before them stand in the stream when this returns."""
        group = sink.PendingGroup(rows, encode, fingerprint)
        ahead = list(group.encode(0)) if self._pending_replies is not None else None
        self.flush()
        self._group, self._encoded_ahead = group, ahead
        self._next_fingerprint = (self._fingerprint + group.fingerprint(group.rows)) & _ALL_BITS
        self._pipeline.with_retries(self._send_group, self._reset)

    def flush(self) -> None:
        """Everything that was appended stands in the stream when this returns."""
        if self._group is not None:
            self._pipeline.with_retries(self._complete, self._reset)

    def known_totals(self) -> Totals:
        """What the unit is known to have written, without asking."""
        return self._known

    def totals(self) -> Totals:
        """What the unit has written to the session, earlier epochs and attempts included. To be asked at the end."""
        self.flush()
        mark = self._pipeline.with_retries(self._read_mark, self._reset)
        done = mark.rows_done(self._epoch)
        if done < self.rows_done:
            raise self._gap(done)
        if self.rows_done < done < EVERY_ROW:
            raise self._changed(f"it has {self.rows_done} rows now, and {mark.rows} stand there")
        return mark.totals

    def has_begun(self) -> bool:
        """Whether something of the epoch stands in the stream, or something later."""
        return self._pipeline.with_retries(self._read_mark, self._reset).epoch >= self._epoch

    def _complete(self) -> None:
        while self._group is not None and not (self._pending_replies is not None and self._receive()):
            self._send_group()

    def _send_group(self) -> None:
        """Send what is missing of the group, or find that nothing is."""
        group = self._group
        assert group is not None
        first, after = self.rows_done, self.rows_done + group.rows
        mark = self._read_mark()
        done = mark.rows_done(self._epoch)
        self._check_acknowledged(mark)
        self._check_fingerprint(group, done)
        if done >= after:
            self._finish_group(group, group.rows)
            return
        if self._gate_state != resolve.GATE_OPEN:
            raise resolve.closed_error(self._gate_state, self._target)
        if done < first:
            raise self._gap(done)
        bursts = self._encoded_ahead
        if bursts is None or done != first:
            bursts = list(group.encode(done - first))
        self._encoded_ahead = bursts if done == first else None
        self._group_totals = Totals()
        for burst in bursts:
            self._group_totals = self._group_totals.with_burst(burst)
        totals = mark.totals.sum_of(self._group_totals)
        # If no answer comes, only the mark can tell what became of it: it has to be read again.
        self._mark = None
        calls = list(self._transaction(bursts, Mark(self._epoch, after, totals)))
        self._pipeline.send([*calls, *self._watch_calls()])
        self._pending_replies = len(calls)
        self._standing = done - first

    def _receive(self) -> bool:
        """Take the answers to what was sent. Whether the transaction took place."""
        count, self._pending_replies = self._pending_replies, None
        assert count is not None
        answers = self._pipeline.receive(count + len(self._watch_calls()))
        self._take_watched(answers[count:])
        if answers[count - 1] is None:
            self.aborted_transactions += 1
            return False
        assert self._group is not None
        self.written = self.written.sum_of(self._group_totals)
        self._finish_group(self._group, self._standing)
        return True

    def _finish_group(self, group: sink.PendingGroup, stood_before: int) -> None:
        self.duplicate_rows += stood_before
        self.rows_done += group.rows
        acknowledged.acknowledged_units.record(self._place, self._epoch, self.rows_done)
        self._fingerprint = self._next_fingerprint
        self._group = self._encoded_ahead = None
        if self._mark is not None:
            self._known = self._mark.totals

    def _check_acknowledged(self, mark: Mark) -> None:
        """What an earlier epoch wrote from this process has to stand there still."""
        if (lost := acknowledged.acknowledged_units.pop_missing(self._place, mark, epoch=self._epoch)) is not None:
            raise errors.AppendGap(
                unit=self._unit,
                identity=self._target.identity,
                epoch=lost.epoch,
                done=mark.rows_done(lost.epoch),
                row=lost.rows,
            )

    def _check_fingerprint(self, group: sink.PendingGroup, done: int) -> None:
        """Rows of this epoch that stand there must be those that we have."""
        within = done - self.rows_done
        if self._stored_fingerprint is None or not 0 < within <= group.rows:
            return
        if (self._fingerprint + group.fingerprint(within)) & _ALL_BITS != self._stored_fingerprint:
            raise self._changed(f"its first {done} rows are not those that stand there")

    def _gap(self, done: int) -> errors.AppendGap:
        return errors.AppendGap(
            unit=self._unit, identity=self._target.identity, epoch=self._epoch, done=done, row=self.rows_done
        )

    def _changed(self, how: str) -> errors.RowsChanged:
        return errors.RowsChanged(unit=self._unit, identity=self._target.identity, epoch=self._epoch, how=how)

    def _read_mark(self) -> Mark:
        """The mark, watched from the moment that it was read."""
        if self._mark is None:
            assert self._pending_replies is None, "answers are under way"
            self._take_watched(self._pipeline.execute(self._watch_calls()))
        assert self._mark is not None
        return self._mark

    def _watch_calls(self) -> list[connection_pipeline.Command]:
        return [
            ("WATCH", self._gate, self._fence),
            ("GET", self._gate),
            ("HGET", self._marks, self._unit),
            ("GET", self._fence),
        ]

    def _take_watched(self, answers: Sequence[Any]) -> None:
        _, self._gate_state, mark, fence = answers
        self._mark = Mark() if mark is None else Mark.from_text(mark.decode())
        self._known = self._mark.totals
        stored = (fence or b"").split()
        self._stored_fingerprint = int(stored[2]) if len(stored) > 2 and int(stored[0]) == self._epoch else None

    def _transaction(self, bursts: Sequence[Burst], mark: Mark) -> Iterator[connection_pipeline.Command]:
        number = self._target.stream_session_id
        yield ("MULTI",)
        for burst in bursts:
            yield ("XADD", self._stream, "*", keys.ENTRY_ID, number, keys.ENTRY_DATA, burst.data)
        yield ("HSET", self._marks, self._unit, mark.text())
        yield ("EXPIRE", self._marks, sink.MARK_TTL_S)
        yield ("SET", self._fence, f"{mark.epoch} {mark.rows} {self._next_fingerprint}", "EX", sink.MARK_TTL_S)
        yield ("EXEC",)

    def _reset(self) -> None:
        self._mark = self._pending_replies = None
