"""What can go wrong with Redis, sorted: passes by itself, lost data, or will never work."""

import redis.asyncio
import redis.exceptions

from rta_wire import redis_errors

OUTAGE_ERRORS = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""


class TemporaryRefusal(Exception):
    """An answer that says that Redis can't now and may later: nothing was done. The answer is the cause."""


REFUSAL_ERRORS = (TemporaryRefusal,)


class DataLost(Exception):
    """Redis does not know what we had put there: it lost data, and somebody has to make it whole."""


RETRIABLE_ERRORS = (*OUTAGE_ERRORS, *REFUSAL_ERRORS, DataLost)
"""Everything that passes by itself or is made good by another task: wait and try again."""


def classify(error: Exception) -> Exception:
    """An error that Redis answered, as the table sorts it. What will never work stays as it is."""
    found = redis_errors.classify(error)
    if found is None or found.kind is not redis_errors.FailureKind.NOT_DONE:
        return error
    kind = DataLost if found.code in redis_errors.LOST_STATE_CODES else TemporaryRefusal
    sorted_ = kind(str(error))
    sorted_.__cause__ = error
    return sorted_


def is_key_specific(error: Exception) -> bool:
    """Whether an answer is about the keys of one session, and not about us: what their writer spoilt is its loss."""
    found = redis_errors.classify(error)
    return found is not None and found.code in redis_errors.KEY_ERROR_CODES
