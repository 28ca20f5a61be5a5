"""How a writer bears trouble with Redis: says so now and then, waits ever longer, goes on or fails with the reason."""

import logging
import random
import time
from typing import Final

import redis
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_wire import errors, redis_errors, redis_url

log: Final = logging.getLogger("rta_writers")

OUTAGE_TIMEOUT_S: Final = 30.0
OUT_OF_MEMORY_TIMEOUT_S: Final = 120.0
"""Longer than it takes a supervisor to trim, which makes room."""

SHORTEST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
SAY_EVERY_S: Final = 10.0

REDIS_ERRORS = (redis.exceptions.RedisError, OSError)
"""Everything that the table has a row for. What will never work is raised by its name."""


class RetryPolicy:
    """For one thing that is tried again and again. `bear` after each failure, `over` after a success."""

    def __init__(self, url: str, *, timeout_s: float | None = None) -> None:
        """`most_s`: where the caller has a deadline of its own."""
        self._url = url
        self._most_s = timeout_s
        self._since_s: float | None = None
        self._said_s = 0.0
        self._pause_s = SHORTEST_PAUSE_S

    def wait(self, error: BaseException) -> None:
        """Wait a little, or raise what a person can act on."""
        found = redis_errors.classify(error)
        if found is None:
            raise error
        if found.kind is redis_errors.FailureKind.PERMANENT:
            raise to_rta_error(self._url, error) from error
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
            self._said_s = now_s - SAY_EVERY_S
        limit_s = OUT_OF_MEMORY_TIMEOUT_S if found.code == redis_errors.OUT_OF_MEMORY else OUTAGE_TIMEOUT_S
        if self._most_s is not None:
            limit_s = min(limit_s, self._most_s)
        waited_s = now_s - self._since_s
        if waited_s > limit_s:
            raise to_rta_error(self._url, error) from error
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            where = redis_url.redact(self._url)
            log.warning("Redis at %s: %s. Waiting for %.0f s, at most %.0f s", where, found, waited_s, limit_s)
        time.sleep(self._pause_s * random.uniform(0.5, 1))  # noqa: S311 - so that many writers don't come back at once
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def reset(self) -> None:
        """It worked."""
        if self._since_s is not None:
            waited_s = time.monotonic() - self._since_s
            log.warning("Redis at %s: going on after %.1f s", redis_url.redact(self._url), waited_s)
            self._since_s = None
            self._pause_s = SHORTEST_PAUSE_S


def to_rta_error(url: str, error: BaseException) -> BaseException:
    """What to tell a person about trouble with Redis; an error that is none of Redis's stays what it is."""
    found = redis_errors.classify(error)
    if found is None:
        return error
    where = redis_url.redact(url)
    if found.code == redis_errors.OUT_OF_MEMORY:
        return errors.RedisFull(url=where, reason=found.text)
    if found.kind is redis_errors.FailureKind.PERMANENT:
        return errors.RedisRefused(url=where, reason=str(found))
    return errors.RedisUnreachable(url=where, reason=found.text)


OUTAGE_ERRORS = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""
