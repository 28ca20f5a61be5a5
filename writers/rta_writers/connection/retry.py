"""What to do about an error of Redis: wait ever longer, log it now and then, and fail with a reason in the end."""

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import redis.exceptions

from rta_wire import errors, redis_errors, redis_url

log: Final = logging.getLogger("rta_writers")

T = TypeVar("T")

OUTAGE_TIMEOUT_S: Final = 30.0
OUT_OF_MEMORY_TIMEOUT_S: Final = 120.0
"""Longer than it takes a supervisor to trim, which makes room."""

SHORTEST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
LOG_EVERY_S: Final = 10.0

REDIS_ERRORS: Final = (redis.exceptions.RedisError, OSError)
"""Every error that `redis_errors.classify` may know, permanent ones included."""

OUTAGE_ERRORS: Final = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors of the connection: what was sent may or may not have been executed."""


class RetryPolicy:
    """Retries of one operation: `wait` after each failure, `reset` after a success."""

    def __init__(self, url: str, *, timeout_s: float | None = None) -> None:
        """`timeout_s` shortens the time that errors are waited out, where the caller has a deadline of its own."""
        self._url = url
        self._timeout_s = timeout_s
        self._failing_since_s: float | None = None
        self._logged_s = 0.0
        self._pause_s = SHORTEST_PAUSE_S

    def wait(self, error: BaseException) -> None:
        """Sleep before the next try. Raises where that is of no use, or when errors have gone on for too long."""
        failure = redis_errors.classify(error)
        if failure is None:
            raise error
        if failure.kind is redis_errors.FailureKind.PERMANENT:
            raise to_rta_error(self._url, error) from error
        now_s = time.monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
            self._logged_s = now_s - LOG_EVERY_S
        limit_s = OUT_OF_MEMORY_TIMEOUT_S if failure.code == redis_errors.OUT_OF_MEMORY else OUTAGE_TIMEOUT_S
        if self._timeout_s is not None:
            limit_s = min(limit_s, self._timeout_s)
        waited_s = now_s - self._failing_since_s
        if waited_s > limit_s:
            raise to_rta_error(self._url, error) from error
        if now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            address = redis_url.redact(self._url)
            log.warning("Redis at %s: %s. Waiting for %.0f s, at most %.0f s", address, failure, waited_s, limit_s)
        # Random, so that many writers don't come back at the same moment.
        time.sleep(self._pause_s * random.uniform(0.5, 1))  # noqa: S311 - no secret depends on it
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def reset(self) -> None:
        """The operation succeeded: log how long it took where it had failed, and start over."""
        if self._failing_since_s is not None:
            waited_s = time.monotonic() - self._failing_since_s
            log.warning("Redis at %s: going on after %.1f s", redis_url.redact(self._url), waited_s)
            self._failing_since_s = None
            self._pause_s = SHORTEST_PAUSE_S


def ride_out(url: str, step: Callable[[], T], *, timeout_s: float | None = None) -> T:
    """The result of a step that may be repeated, through a short outage of Redis. Raises the error of `rta_wire`."""
    policy = RetryPolicy(url, timeout_s=timeout_s)
    while True:
        try:
            result = step()
        except REDIS_ERRORS as error:
            policy.wait(error)
        else:
            policy.reset()
            return result


def to_rta_error(url: str, error: BaseException) -> BaseException:
    """The error to raise for one of Redis, without the password of the URL. Any other error is returned as it is."""
    failure = redis_errors.classify(error)
    if failure is None:
        return error
    address = redis_url.redact(url)
    if failure.code == redis_errors.OUT_OF_MEMORY:
        return errors.RedisFull(url=address, reason=failure.text)
    if failure.code == redis_errors.POOL_EXHAUSTED:
        return errors.ConnectionsExhausted(url=address, reason=failure.text)
    if failure.kind is redis_errors.FailureKind.PERMANENT:
        return errors.RedisRefused(url=address, reason=str(failure))
    return errors.RedisUnreachable(url=address, reason=failure.text)
