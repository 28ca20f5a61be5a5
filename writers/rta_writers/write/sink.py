"""What an attempt to append has, whichever way it delivers: counts, a line to its server, and names of keys."""

from abc import ABC, abstractmethod

import redis

from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.options.target import Target


class Attempt(ABC):
    """One attempt to append rows to a session."""

    def __init__(self, client: redis.Redis, target: Target) -> None:
        self.duplicate_rows = 0
        self.refused = 0
        """Transactions that failed because a twin or a close was faster."""
        self.row = 0
        self.written = Totals()
        """What this attempt itself put there."""
        self._target = target
        self._talk = connection_pipeline.Talk(client, target)
        place = target.stream, target.stream_session_id
        self._stream = keys.stream(target.stream)
        self._gate = target.keys.gate(*place)
        self._marks = target.keys.marks(*place)

    @property
    def outages(self) -> int:
        return self._talk.outages

    def close(self) -> None:
        """Give the connection back. Appending may go on afterwards."""
        self._talk.hang_up()
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """The connection is gone, and what was under way may or may not be done."""
