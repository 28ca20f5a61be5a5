"""What an attempt to append has, whichever way it delivers: counts, a line to its server, and names of keys."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

import redis

from rta_wire import keys
from rta_wire.codec.encode import Burst
from rta_wire.control.totals import Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.options.target import Target


class SinkBase(ABC):
    """One attempt to append rows to a session."""

    def __init__(self, client: redis.Redis, target: Target) -> None:
        self.duplicate_rows = 0
        self.aborted_transactions = 0
        """Transactions that failed because a twin or a close was faster."""
        self.rows_done = 0
        self.written = Totals()
        """What this attempt itself put there."""
        self._target = target
        self._pipeline = connection_pipeline.Pipeline(client, target.redis_url, keys.stream(target.stream))
        place = target.stream, target.stream_session_id
        self._stream = keys.stream(target.stream)
        self._gate = target.keys.gate(*place)
        self._marks = target.keys.marks(*place)

    @property
    def outages(self) -> int:
        return self._pipeline.outages

    def close(self) -> None:
        """Give the connection back. Appending may go on afterwards."""
        self._pipeline.release()
        self._reset()

    @abstractmethod
    def _reset(self) -> None:
        """The connection is gone, and what was under way may or may not be done."""


MARK_TTL_S: Final = 7 * 24 * 3600


Encode = Callable[[int], Iterable[Burst]]
"""Bursts of a group of rows, without the first so many of them."""


Fingerprint = Callable[[int], int]
"""A number that the first so many rows of a group add up to."""


def no_fingerprint(_: int) -> int:
    return 0


class PendingGroup(NamedTuple):
    """Rows that are sent in one piece."""

    rows: int
    encode: Encode
    fingerprint: Fingerprint


class Sink(Protocol):
    """How rows get to the stream. There is one for each delivery."""

    rows_done: int
    duplicate_rows: int
    aborted_transactions: int
    written: Totals

    @property
    def outages(self) -> int: ...
    def append(self, rows: int, encode: Encode, fingerprint: Fingerprint = ...) -> None: ...
    def flush(self) -> None: ...
    def known_totals(self) -> Totals: ...
    def totals(self) -> Totals: ...
    def close(self) -> None: ...
