"""A connection to Redis on which nothing is repeated behind our back: only code that knows what it sent repeats it."""

from typing import Final

import redis
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_wire import errors

TIMEOUT_S: Final = 5.0

Outage = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""


def connect(url: str) -> redis.Redis:
    """A client for the URL. Connects when it is first used."""
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            maint_notifications_config=redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            legacy_responses=False,
        )
    except ValueError as error:
        raise errors.BadConfiguration(where=f"Redis URL {url!r}", reason=str(error)) from error


def unreachable(url: str, error: BaseException) -> errors.RedisUnreachable:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return errors.RedisUnreachable(url=url.rpartition("@")[2], reason=reason)
