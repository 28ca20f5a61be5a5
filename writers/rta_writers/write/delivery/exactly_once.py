"""Appends that happen once: each row of a unit is in the stream once, however often it is tried.

The mark of a unit says how many rows of an epoch are in the stream. Mark and bursts change in one transaction. Watched
keys make it fail where another attempt was faster (the fence changed) or the session was closed in between (the gate
changed). After a failure, and after a lost connection, the mark says what is there, and only the rest is encoded and
sent. So attempts need the same rows in the same order; they need not cut them into the same bursts. The fence holds a
fingerprint of the rows that are there: an attempt whose rows have another one is refused. `fingerprint` says which
other rows that does not find.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import redis
import redis.exceptions

from rta_wire import errors, keys, name_checks
from rta_wire.codec.burst import Burst
from rta_wire.control.totals import EVERY_ROW, Mark, Totals
from rta_writers.connection.pipeline import Command, CommandTemplate, pack
from rta_writers.control import session_resolver
from rta_writers.options.target import Target
from rta_writers.write import fingerprint, lost_rows
from rta_writers.write.delivery import appender
from rta_writers.write.delivery.append_state import (
    TRANSITIONS,
    AppendEvent,
    AppendState,
    GroupDecision,
    WatchedUnit,
    decide,
)

MULTI: Final = pack("MULTI")
EXEC: Final = pack("EXEC")
NO_MARK: Final = Mark()
RENEW_MARKS_S: Final = 3600.0


class ExactlyOnceAppender(appender.Appender):
    """Appends the rows of one unit in one epoch, group by group. While one is under way the next is encoded."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        super().__init__(client, target)
        self._unit = name_checks.check_unit(unit)
        self._epoch = epoch
        self._state = AppendState.UNREAD
        self._watched: WatchedUnit | None = None
        self._known_totals = Totals()
        self._fingerprint = 0
        self._group: appender.RowGroup | None = None
        self._group_fingerprint = 0
        self._group_bursts: Sequence[Burst] | None = None
        self._sent_after_row = 0
        self._sent_totals = Totals()
        self._sent_commands = 0
        self._sent_unit = self._unit_before = WatchedUnit(None, NO_MARK, 0, None)
        """The unit as the transaction under way leaves it, and as it was before."""
        self._sent_texts: tuple[bytes, bytes] = (b"", b"")
        """Mark and fence as the transaction under way sets them."""
        self._fence = target.keys.fence(target.stream, target.stream_session_id, unit)
        fields = (keys.ENTRY_ID, target.stream_session_id, keys.ENTRY_DATA)
        self._add_entry = CommandTemplate("XADD", self._stream, "*", *fields, None)
        self._set_mark = CommandTemplate("HSET", self._marks, unit, None)
        self._set_fence = CommandTemplate("SET", self._fence, None, "EX", appender.MARK_TTL_S)
        self._watch_commands: list[Command] = [
            pack("WATCH", self._gate, self._fence),
            pack("GET", self._gate),
            pack("HGET", self._marks, unit),
            pack("GET", self._fence),
        ]
        self._marks_kept_s = -float("inf")
        """When the lifetime of the marks was last renewed, by the clock of this process."""
        self._unit_key = lost_rows.UnitKey(target.redis_url, target.identity, self._marks, unit)

    def append(
        self,
        rows: int,
        encode_rows: appender.EncodeRows,
        fingerprint_rows: appender.FingerprintRows = appender.no_fingerprint,
    ) -> None:
        bursts = list(encode_rows(0)) if self._state is AppendState.SENT else None
        self.flush()
        self._group, self._group_bursts = appender.RowGroup(rows, encode_rows, fingerprint_rows), bursts
        self._group_fingerprint = fingerprint_rows(rows)
        self._pipeline.with_retries(self._send_group, self._reset)

    @property
    def is_under_way(self) -> bool:
        return self._group is not None

    def flush(self) -> None:
        if self._group is not None:
            self._pipeline.with_retries(self._complete, self._reset)

    def known_totals(self) -> Totals:
        return self._known_totals

    def totals(self) -> Totals:
        """What the unit has written to the session, earlier epochs and attempts included. Checks that all is there."""
        self.flush()
        unit = self._pipeline.with_retries(self._watch, self._reset)
        if unit.rows < self.rows_done:
            raise self._gap_error(unit)
        if self.rows_done < unit.rows < EVERY_ROW:
            raise self._changed_error(f"it has {self.rows_done} rows now, and {unit.mark.rows} stand there")
        return unit.mark.totals

    def has_begun(self) -> bool:
        """Whether rows of the epoch, or of a later one, are in the stream."""
        return self._pipeline.with_retries(self._watch, self._reset).mark.epoch >= self._epoch

    def _complete(self) -> None:
        while self._group is not None:
            if self._state is AppendState.SENT:
                self._receive()
            else:
                self._send_group()

    def _send_group(self) -> None:
        """Send the rows of the group that are missing, or find that none are."""
        assert self._group is not None
        unit = self._watch()
        self._check_acknowledged(unit.mark)
        decision = decide(unit, self._group, self.rows_done, self._fingerprint)
        if decision is GroupDecision.FINISH:
            self._finish_group(duplicate_rows=self._group.rows)
        elif decision is GroupDecision.SEND:
            self._send_transaction(unit, self._group)
        elif decision is GroupDecision.REFUSE_CLOSED:
            raise session_resolver.closed_error(unit.gate, self._target)
        elif decision is GroupDecision.REFUSE_GAP:
            raise self._gap_error(unit)
        else:
            raise self._changed_error(f"its first {unit.rows} rows are not those that stand there")

    def _watch(self) -> WatchedUnit:
        """The unit as it was when its keys were last watched on this connection; watches them where they are not."""
        if self._state is not AppendState.WATCHED:
            assert self._state is AppendState.UNREAD, "replies are under way"
            self._take_watched(AppendEvent.MARK_READ, self._pipeline.execute(self._watch_commands))
        assert self._watched is not None
        return self._watched

    def _send_transaction(self, unit: WatchedUnit, group: appender.RowGroup) -> None:
        skipped = unit.rows - self.rows_done
        bursts = self._group_bursts
        if bursts is None or skipped:
            bursts = list(group.encode_rows(skipped))
        self._group_bursts = None if skipped else bursts
        totals = Totals()
        for burst in bursts:
            totals = totals.with_burst(burst)
        mark = Mark(self._epoch, self.rows_done + group.rows, unit.mark.totals.sum_of(totals))
        after = (self._fingerprint + self._group_fingerprint) & fingerprint.BITS
        self._sent_unit, self._unit_before = WatchedUnit(None, mark, mark.rows, after), unit
        self._sent_texts = self._sent_unit.texts()
        commands = list(self._transaction(bursts, has_no_mark=unit.mark == NO_MARK))
        self._sent_after_row, self._sent_totals, self._sent_commands = skipped, totals, len(commands)
        # Before it is sent: from then on only the mark says whether it took place, and it has to be read again.
        self._change_state(AppendEvent.TRANSACTION_SENT)
        self._pipeline.send([*commands, *self._watch_commands])

    def _receive(self) -> None:
        """Read the replies to what was sent. The group is finished where the transaction took place."""
        replies = self._pipeline.receive(self._sent_commands + len(self._watch_commands))
        _, gate, *texts = watched = replies[self._sent_commands :]
        results = replies[self._sent_commands - 1]
        self._check_results(results or ())
        if tuple(texts) == self._sent_texts:
            # As it was set: what the texts say is known.
            self._know_unit(AppendEvent.REPLIES_READ, self._sent_unit._replace(gate=gate))
        else:
            self._take_watched(AppendEvent.REPLIES_READ, watched)
        if results is None:
            self.aborted_transactions += 1
            return
        self.written = self.written.sum_of(self._sent_totals)
        self._finish_group(duplicate_rows=self._sent_after_row)

    def _check_results(self, results: Sequence[Any]) -> None:
        """Raise where a command of the transaction failed: Redis has executed the others all the same.

        Where no burst is in the stream, the mark is set back first, or a retry would take the rows for written.
        """
        failures = [result for result in results if isinstance(result, redis.exceptions.RedisError)]
        if not failures:
            return
        bursts = results[: self._sent_totals.bursts]
        if all(isinstance(result, redis.exceptions.RedisError) for result in bursts):
            mark, fence = self._unit_before.texts()
            # The keys are watched: it does nothing where another attempt has gone on from this mark.
            self._pipeline.try_execute([MULTI, self._set_mark.pack(mark), self._set_fence.pack(fence), EXEC])
        raise failures[0]

    def _finish_group(self, *, duplicate_rows: int) -> None:
        assert self._group is not None
        self.duplicate_rows += duplicate_rows
        self.rows_done += self._group.rows
        lost_rows.acknowledged_units.record(self._unit_key, self._epoch, self.rows_done)
        self._fingerprint = (self._fingerprint + self._group_fingerprint) & fingerprint.BITS
        self._group = self._group_bursts = None

    def _take_watched(self, event: AppendEvent, replies: Sequence[Any]) -> None:
        self._know_unit(event, WatchedUnit.from_replies(replies, self._epoch))

    def _know_unit(self, event: AppendEvent, unit: WatchedUnit) -> None:
        self._change_state(event, unit)
        self._known_totals = unit.mark.totals

    def _change_state(self, event: AppendEvent, watched: WatchedUnit | None = None) -> None:
        self._state, self._watched = TRANSITIONS[self._state, event], watched

    def _check_acknowledged(self, mark: Mark) -> None:
        """Raise where Redis lost rows that this process wrote in another epoch."""
        lost = lost_rows.acknowledged_units.pop_missing(self._unit_key, mark, epoch=self._epoch)
        if lost is not None:
            raise errors.AppendGap(
                unit=self._unit,
                identity=self._target.identity,
                epoch=lost.epoch,
                done=mark.rows_done(lost.epoch),
                row=lost.rows,
            )

    def _gap_error(self, unit: WatchedUnit) -> errors.AppendGap:
        return errors.AppendGap(
            unit=self._unit, identity=self._target.identity, epoch=self._epoch, done=unit.rows, row=self.rows_done
        )

    def _changed_error(self, how: str) -> errors.RowsChanged:
        return errors.RowsChanged(unit=self._unit, identity=self._target.identity, epoch=self._epoch, how=how)

    def _transaction(self, bursts: Sequence[Burst], *, has_no_mark: bool) -> Iterator[Command]:
        mark, fence = self._sent_texts
        yield MULTI
        for burst in bursts:
            yield self._add_entry.pack(burst.data)
        yield self._set_mark.pack(mark)
        now_s = time.monotonic()
        if has_no_mark or now_s - self._marks_kept_s >= RENEW_MARKS_S:
            # Seldom: the marks live for days. Where the unit has none they may have to be made.
            yield ("EXPIRE", self._marks, appender.MARK_TTL_S)
            self._marks_kept_s = now_s
        yield self._set_fence.pack(fence)
        yield EXEC

    def close(self) -> None:
        if self._state is AppendState.WATCHED:
            # An empty transaction ends the watch: the next user of the connection must not fail because of it.
            self._pipeline.try_execute([MULTI, EXEC])
        super().close()

    def _reset(self) -> None:
        self._change_state(AppendEvent.CONNECTION_CLOSED)
