"""One connection of a writer: many commands in one go, answers when they are wanted, and patience in an outage."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis
import redis.exceptions

from rta_wire import keys
from rta_writers.connection import redis_client, retry
from rta_writers.options.target import Target

T = TypeVar("T")
Command = tuple[Any, ...]


class Pipeline:
    """Sends without waiting for answers. After an outage it starts anew: what was under way may or may not be done."""

    def __init__(self, client: redis.Redis, target: Target) -> None:
        self.outages = 0
        self._client = client
        self._target = target
        self._connection: Any = None
        self._pool: Any = None
        self._has_failed = False

    def send(self, calls: Sequence[Command]) -> None:
        if self._connection is None:
            if self._has_failed:
                redis_client.refresh_slots(self._client)
                self._has_failed = False
            self._pool = redis_client.client_for_key(self._client, keys.stream(self._target.stream)).connection_pool
            self._connection = self._pool.get_connection()
        self._connection.send_packed_command(self._connection.pack_commands(calls))

    def receive(self, count: int) -> list[Any]:
        """So many answers; the first error is raised after the last answer."""
        answers: list[Any] = []
        failed: redis.exceptions.ResponseError | None = None
        for _ in range(count):
            try:
                answers.append(self._connection.read_response())
            except redis.exceptions.ResponseError as error:
                failed = failed or error
                answers.append(None)
        if failed is not None:
            raise failed
        return answers

    def execute(self, calls: Sequence[Command]) -> list[Any]:
        self.send(calls)
        return self.receive(len(calls))

    def release(self) -> None:
        """Give the connection back, closed: answers may still be on their way."""
        if self._connection is not None:
            self._connection.disconnect()
            self._pool.release(self._connection)
            self._connection = None

    def with_retries(self, step: Callable[[], T], forget: Callable[[], None]) -> T:
        """Ride out a short outage, or a server that is full. `step` can be repeated after `forget`."""
        borne = retry.RetryPolicy(self._target.redis_url)
        while True:
            try:
                done = step()
            except retry.REDIS_ERRORS as error:
                self.outages += 1
                self._has_failed = True
                self.release()
                forget()
                borne.wait(error)
            else:
                borne.reset()
                return done
