"""What the appenders of all delivery guarantees share: the calls that they take, counts, keys and a connection."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import redis

from rta_wire import keys
from rta_wire.codec.burst import Burst
from rta_wire.control.totals import Totals
from rta_writers.connection.pipeline import Pipeline
from rta_writers.options.target import Target

MARK_TTL_S: Final = 7 * 24 * 3600

EncodeRows = Callable[[int], Iterable[Burst]]
"""Encodes a group of rows without its first ones, whose number is the argument."""

FingerprintRows = Callable[[int], int]
"""Gives the fingerprint of the first rows of a group, whose number is the argument."""


def no_fingerprint(_: int) -> int:
    """The fingerprint of rows that are not compared."""
    return 0


class RowGroup(NamedTuple):
    """Rows that are encoded and sent together."""

    rows: int
    encode_rows: EncodeRows
    fingerprint_rows: FingerprintRows


class Appender(ABC):
    """Writes the rows of one attempt to one session. There is a class for each delivery guarantee."""

    def __init__(self, client: redis.Redis, target: Target) -> None:
        self.duplicate_rows = 0
        self.aborted_transactions = 0
        """Transactions that failed because another attempt or a close was faster."""
        self.rows_done = 0
        self.written = Totals()
        """What this attempt itself wrote."""
        self._target = target
        self._stream = keys.stream(target.stream)
        self._gate = target.keys.gate(target.stream, target.stream_session_id)
        self._marks = target.keys.marks(target.stream, target.stream_session_id)
        self._pipeline = Pipeline(client, target.redis_url, self._stream)

    @property
    def outages(self) -> int:
        return self._pipeline.outages

    @abstractmethod
    def append(self, rows: int, encode_rows: EncodeRows, fingerprint_rows: FingerprintRows = no_fingerprint) -> None:
        """Send the next group of rows. The groups before it are written when this returns."""

    @property
    @abstractmethod
    def is_under_way(self) -> bool:
        """Whether a group was appended that is not known to be written."""

    def poll(self) -> None:
        """Finish the group under way where its replies have arrived. Waits for nothing."""
        if self.is_under_way and self._pipeline.has_reply():
            self.flush()

    @abstractmethod
    def flush(self) -> None:
        """Wait until every group that was appended is written."""

    @abstractmethod
    def known_totals(self) -> Totals:
        """What the unit is known to have in the stream, without asking the server."""

    @abstractmethod
    def totals(self) -> Totals:
        """What the unit has written to the session, checked on the server. To be called after the last row."""

    def close(self) -> None:
        """Release the connection. Rows can still be appended afterwards, on another one."""
        self._pipeline.release()
        self._reset()

    @abstractmethod
    def _reset(self) -> None:
        """Drop what was known from a connection that is closed: what was under way may or may not be done."""
