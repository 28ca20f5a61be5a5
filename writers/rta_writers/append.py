"""Appends that happen once: each burst of a unit stands in the stream once, however often it is tried.

The unit's mark and its bursts change in one transaction. Watched keys make it fail where a twin of this writer was
faster (the fence changed) or the session was closed in between (the gate changed). After a failure, and after a lost
connection, the mark tells what stands in the stream, and only the rest is sent again.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import redis
import redis.exceptions

from rta_wire import errors, keys
from rta_wire.encode import Burst
from rta_wire.totals import Mark, Totals
from rta_writers import connection
from rta_writers.target import Target

BURSTS_PER_TRANSACTION: Final = 16
MARK_TTL_S: Final = 7 * 24 * 3600
OUTAGE_PATIENCE_S: Final = 30.0
OUTAGE_PAUSE_S: Final = 0.2


class Numbered(msgspec.Struct, frozen=True):
    """A burst and its place in the epoch, from 1."""

    seq: int
    burst: Burst


class Appender:
    """Appends the bursts of one unit in one epoch."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        self.duplicates = 0
        self._client = client
        self._target = target
        self._unit = keys.check_unit(unit)
        self._epoch = epoch
        self._seq = 0
        self._waiting: list[Numbered] = []
        self._mark: Mark | None = None
        self._connection: Any = None
        place = target.stream, target.stream_session_id
        self._stream = keys.stream(target.stream)
        self._gate = target.keys.gate(*place)
        self._marks = target.keys.marks(*place)
        self._fence = target.keys.fence(*place, self._unit)

    def append(self, burst: Burst) -> bool:
        """Take one burst; sent with others. Whether this call sent something."""
        self._seq += 1
        self._waiting.append(Numbered(self._seq, burst))
        if len(self._waiting) < BURSTS_PER_TRANSACTION:
            return False
        self.flush()
        return True

    def flush(self) -> Totals:
        """Everything taken so far stands in the stream when this returns. Gives the unit's totals."""
        deadline_s = time.monotonic() + OUTAGE_PATIENCE_S
        while self._waiting or self._mark is None:
            try:
                if self._mark is None:
                    self._watch()
                self._drop_what_stands()
                if self._waiting:
                    self._send()
            except (*connection.Outage, redis.exceptions.OutOfMemoryError) as error:
                self._disconnect()
                if time.monotonic() > deadline_s:
                    raise self._given_up(error) from error
                time.sleep(OUTAGE_PAUSE_S)
        return self._mark.totals

    def close(self) -> None:
        """Give the connection back. What is not flushed was never promised."""
        self._disconnect()

    def _watch(self) -> None:
        self._connection = self._connection or self._client.connection_pool.get_connection()
        answers = self._talk(self._watch_calls())
        self._mark = self._read_mark(answers)

    def _watch_calls(self) -> list[tuple[Any, ...]]:
        return [("WATCH", self._gate, self._fence), ("GET", self._gate), ("HGET", self._marks, self._unit)]

    def _read_mark(self, answers: Sequence[Any]) -> Mark:
        _, gate, mark = answers
        if gate is None:
            raise errors.UnknownSession(identity=self._target.identity)
        if gate != b"open":
            raise errors.SessionClosed(identity=self._target.identity, state="closed")
        return Mark() if mark is None else Mark.from_text(mark.decode())

    def _drop_what_stands(self) -> None:
        assert self._mark is not None
        mark = self._mark
        missing = [one for one in self._waiting if not mark.holds(self._epoch, one.seq)]
        self.duplicates += len(self._waiting) - len(missing)
        self._waiting = missing
        if missing and not mark.is_next(self._epoch, missing[0].seq):
            raise errors.AppendGap(
                unit=self._unit,
                identity=self._target.identity,
                epoch=mark.epoch,
                seq=mark.seq,
                got_epoch=self._epoch,
                got_seq=missing[0].seq,
            )

    def _send(self) -> None:
        """One transaction, and the watch for the next one in the same round trip."""
        assert self._mark is not None
        sending = self._waiting
        totals = self._mark.totals
        for one in sending:
            totals = totals.plus(one.burst)
        after = Mark(self._epoch, sending[-1].seq, totals)
        # What became of it is unknown until the answer is here: a lost connection must read the mark again.
        self._mark = None
        transaction = list(self._transaction(sending, after))
        answers = self._talk([*transaction, *self._watch_calls()])
        applied = answers[len(transaction) - 1] is not None
        if applied:
            self._waiting = []
        self._mark = self._read_mark(answers[len(transaction) :])

    def _transaction(self, sending: Sequence[Numbered], after: Mark) -> Iterator[tuple[Any, ...]]:
        number = self._target.stream_session_id
        yield ("MULTI",)
        for one in sending:
            yield ("XADD", self._stream, "*", keys.ENTRY_ID, number, keys.ENTRY_DATA, one.burst.data)
        yield ("HSET", self._marks, self._unit, after.text())
        yield ("EXPIRE", self._marks, MARK_TTL_S)
        yield ("SET", self._fence, f"{after.epoch} {after.seq}", "EX", MARK_TTL_S)
        yield ("EXEC",)

    def _talk(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Send all, then read all answers; the first error is raised after the last answer."""
        self._connection.send_packed_command(self._connection.pack_commands(calls))
        answers: list[Any] = []
        failed: redis.exceptions.ResponseError | None = None
        for _ in calls:
            try:
                answers.append(self._connection.read_response())
            except redis.exceptions.ResponseError as error:
                failed = failed or error
                answers.append(None)
        if failed is not None:
            raise failed
        return answers

    def _disconnect(self) -> None:
        self._mark = None
        if self._connection is not None:
            self._connection.disconnect()
            self._client.connection_pool.release(self._connection)
            self._connection = None

    def _given_up(self, error: BaseException) -> errors.RtaError:
        if isinstance(error, redis.exceptions.OutOfMemoryError):
            return errors.RedisFull(url=self._target.redis_url.rpartition("@")[2], reason=str(error))
        return connection.unreachable(self._target.redis_url, error)
