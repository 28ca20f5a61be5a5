"""How a writer bears trouble with Redis: says so now and then, waits ever longer, goes on or fails with the reason."""

import logging
import random
import time
from typing import Final

import redis.exceptions

from rta_wire import credentials, errors, redis_errors

log: Final = logging.getLogger("rta_writers")

OUTAGE_PATIENCE_S: Final = 30.0
FULL_PATIENCE_S: Final = 120.0
"""Longer than it takes a supervisor to trim, which makes room."""

SHORTEST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
SAY_EVERY_S: Final = 10.0

Trouble = (redis.exceptions.RedisError, OSError)
"""Everything that the table has a row for. What will never work is raised by its name."""


class Patience:
    """For one thing that is tried again and again. `bear` after each failure, `over` after a success."""

    def __init__(self, url: str, *, most_s: float | None = None) -> None:
        """`most_s`: where the caller has a deadline of its own."""
        self._url = url
        self._most_s = most_s
        self._since_s: float | None = None
        self._said_s = 0.0
        self._pause_s = SHORTEST_PAUSE_S

    def bear(self, error: BaseException) -> None:
        """Wait a little, or raise what a person can act on."""
        found = redis_errors.verdict(error)
        if found is None:
            raise error
        if found.sort is redis_errors.Sort.NEVER:
            raise named(self._url, error) from error
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
            self._said_s = now_s - SAY_EVERY_S
        limit_s = FULL_PATIENCE_S if found.code == redis_errors.FULL else OUTAGE_PATIENCE_S
        if self._most_s is not None:
            limit_s = min(limit_s, self._most_s)
        waited_s = now_s - self._since_s
        if waited_s > limit_s:
            raise named(self._url, error) from error
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            where = credentials.safe(self._url)
            log.warning("Redis at %s: %s. Waiting for %.0f s, at most %.0f s", where, found, waited_s, limit_s)
        time.sleep(self._pause_s * random.uniform(0.5, 1))  # noqa: S311 - so that many writers don't come back at once
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def over(self) -> None:
        """It worked."""
        if self._since_s is not None:
            waited_s = time.monotonic() - self._since_s
            log.warning("Redis at %s: going on after %.1f s", credentials.safe(self._url), waited_s)
            self._since_s = None
            self._pause_s = SHORTEST_PAUSE_S


def named(url: str, error: BaseException) -> BaseException:
    """What to tell a person about trouble with Redis; an error that is none of Redis's stays what it is."""
    found = redis_errors.verdict(error)
    if found is None:
        return error
    where = credentials.safe(url)
    if found.code == redis_errors.FULL:
        return errors.RedisFull(url=where, reason=found.said)
    if found.sort is redis_errors.Sort.NEVER:
        return errors.RedisRefused(url=where, reason=str(found))
    return errors.RedisUnreachable(url=where, reason=found.said)
