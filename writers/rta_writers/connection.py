"""A connection to Redis on which nothing is repeated behind our back: only code that knows what it sent repeats it."""

import functools
from typing import Final

import redis
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_wire import access

TIMEOUT_S: Final = 5.0
SHARED_MAX: Final = 8

Outage = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""


def connect(url: str) -> redis.Redis:
    """A client for the URL. Connects when it is first used."""
    way = access.way(url)
    try:
        return redis.Redis.from_url(
            way.url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            maint_notifications_config=redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            legacy_responses=False,
            # Not told to the server: an ACL that allows it keeps a Redis 7.0 from starting.
            driver_info=None,
            **way.options,
        )
    except ValueError as error:
        raise access.unusable(way.url, error) from error


@functools.lru_cache(maxsize=SHARED_MAX)
def shared(url: str) -> redis.Redis:
    """A client that lives as long as its process: Spark asks short questions of the same workers at every trigger."""
    return connect(url)
