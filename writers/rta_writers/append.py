"""Appends that happen once: each row of a unit stands in the stream once, however often it is tried.

A unit's mark says how many rows of an epoch stand in the stream. Mark and bursts change in one transaction. Watched
keys make it fail where a twin of this writer was faster (the fence changed) or the session was closed in between (the
gate changed). After a failure, and after a lost connection, the mark tells what stands there, and only the rest is
encoded and sent. So attempts need the same rows in the same order; they need not cut them into the same bursts.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import redis
import redis.exceptions

from rta_wire import errors, keys
from rta_wire.encode import Burst
from rta_wire.totals import Mark, Totals
from rta_writers import connection
from rta_writers.target import Target

MARK_TTL_S: Final = 7 * 24 * 3600
OUTAGE_PATIENCE_S: Final = 30.0
OUTAGE_PAUSE_S: Final = 0.2

T = TypeVar("T")

Encode = Callable[[int], Iterable[Burst]]
"""Bursts of a group of rows, without the first so many of them."""


class Appender:
    """Appends the rows of one unit in one epoch, group by group."""

    def __init__(self, client: redis.Redis, target: Target, *, unit: str, epoch: int) -> None:
        self.duplicate_rows = 0
        self._client = client
        self._target = target
        self._unit = keys.check_unit(unit)
        self._epoch = epoch
        self._row = 0
        self._mark: Mark | None = None
        self._gate_state: bytes | None = None
        self._connection: Any = None
        place = target.stream, target.stream_session_id
        self._stream = keys.stream(target.stream)
        self._gate = target.keys.gate(*place)
        self._marks = target.keys.marks(*place)
        self._fence = target.keys.fence(*place, self._unit)

    def append(self, rows: int, encode: Encode) -> None:
        """The next `rows` rows of the epoch stand in the stream, in one piece, when this returns."""
        self.duplicate_rows += self._patiently(lambda: self._append(self._row, self._row + rows, encode))
        self._row += rows

    def totals(self) -> Totals:
        """What the unit has written to the session, earlier epochs and attempts included."""
        return self._patiently(self._read_mark).totals

    def close(self) -> None:
        """Give the connection back."""
        self._disconnect()

    def _patiently(self, step: Callable[[], T]) -> T:
        """Ride out a short outage. Each step can be repeated: it starts from the mark."""
        deadline_s = time.monotonic() + OUTAGE_PATIENCE_S
        while True:
            try:
                return step()
            except (*connection.Outage, redis.exceptions.OutOfMemoryError) as error:
                self._disconnect()
                if time.monotonic() > deadline_s:
                    raise self._given_up(error) from error
                time.sleep(OUTAGE_PAUSE_S)

    def _append(self, first: int, after: int, encode: Encode) -> int:
        """Rows `first` to `after`. Gives how many of them stood there before."""
        while (done := self._read_mark().done(self._epoch)) < after:
            self._check_gate()
            if done < first:
                raise errors.AppendGap(
                    unit=self._unit, identity=self._target.identity, epoch=self._epoch, done=done, row=first
                )
            if self._send(list(encode(done - first)), after):
                return done - first
        return after - first

    def _read_mark(self) -> Mark:
        """The mark, watched from the moment that it was read."""
        if self._mark is None:
            self._connection = self._connection or self._client.connection_pool.get_connection()
            self._take_watched(self._talk(self._watch_calls()))
        assert self._mark is not None
        return self._mark

    def _watch_calls(self) -> list[tuple[Any, ...]]:
        return [("WATCH", self._gate, self._fence), ("GET", self._gate), ("HGET", self._marks, self._unit)]

    def _take_watched(self, answers: Sequence[Any]) -> None:
        _, self._gate_state, mark = answers
        self._mark = Mark() if mark is None else Mark.from_text(mark.decode())

    def _check_gate(self) -> None:
        if self._gate_state is None:
            raise errors.UnknownSession(identity=self._target.identity)
        if self._gate_state != b"open":
            raise errors.SessionClosed(identity=self._target.identity, state="closed")

    def _send(self, bursts: Sequence[Burst], rows: int) -> bool:
        """One transaction, and the watch for the next one in the same round trip. Whether it took place."""
        totals = self._read_mark().totals
        for burst in bursts:
            totals = totals.plus(burst)
        transaction = list(self._transaction(bursts, Mark(self._epoch, rows, totals)))
        # If no answer comes, only the mark can tell what became of it: it has to be read again.
        self._mark = None
        answers = self._talk([*transaction, *self._watch_calls()])
        self._take_watched(answers[len(transaction) :])
        return answers[len(transaction) - 1] is not None

    def _transaction(self, bursts: Sequence[Burst], mark: Mark) -> Iterator[tuple[Any, ...]]:
        number = self._target.stream_session_id
        yield ("MULTI",)
        for burst in bursts:
            yield ("XADD", self._stream, "*", keys.ENTRY_ID, number, keys.ENTRY_DATA, burst.data)
        yield ("HSET", self._marks, self._unit, mark.text())
        yield ("EXPIRE", self._marks, MARK_TTL_S)
        yield ("SET", self._fence, f"{mark.epoch} {mark.rows}", "EX", MARK_TTL_S)
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
