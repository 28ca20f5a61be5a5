"""Errors of Redis, sorted into those that pass, lost data and those that are permanent, and as errors for people."""

import redis.exceptions

from rta_wire import errors, redis_errors, redis_url

OUTAGE_ERRORS = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Redis can't be reached: what was sent may or may not have been done."""


class TemporaryRefusal(Exception):
    """Redis can't run a command now and may later: nothing was done. Its error reply is the cause."""


REFUSAL_ERRORS = (TemporaryRefusal,)


class DataLost(Exception):
    """Redis does not know what we had put there: it lost data, and recovery has to restore it."""


RETRIABLE_ERRORS = (*OUTAGE_ERRORS, *REFUSAL_ERRORS, DataLost)
"""Everything that passes by itself or that recovery repairs: wait and try again."""


def classify(error: Exception) -> Exception:
    """An error reply as a TemporaryRefusal or DataLost, by the table of the wire. A permanent one stays as it is."""
    failure = redis_errors.classify(error)
    if failure is None or failure.kind is not redis_errors.FailureKind.NOT_DONE:
        return error
    kind = DataLost if failure.code in redis_errors.LOST_STATE_CODES else TemporaryRefusal
    classified = kind(str(error))
    classified.__cause__ = error
    return classified


def is_key_specific(error: Exception) -> bool:
    """Whether an error reply is about the keys of its command, which a client can spoil, and not about the server."""
    failure = redis_errors.classify(error)
    return failure is not None and failure.code in redis_errors.KEY_ERROR_CODES


def to_rta_error(url: str, error: BaseException) -> errors.RtaError:
    """An error of a Redis server as an error for people, with the server's address and without its password."""
    url = redis_url.redact(url)
    is_classified = isinstance(error, TemporaryRefusal | DataLost)
    failure = redis_errors.classify(error.__cause__ or error if is_classified else error)
    if failure is None:
        return errors.RedisUnreachable(url=url, reason=redis_errors.first_line(error))
    if failure.code == redis_errors.OUT_OF_MEMORY:
        return errors.RedisFull(url=url, reason=failure.text)
    if failure.code in redis_errors.READ_ONLY:
        return errors.RedisUnsuitable(url=url, reason=f"{failure.meaning}. Name the primary")
    if failure.kind is redis_errors.FailureKind.PERMANENT:
        return errors.RedisRefused(url=url, reason=str(failure))
    return errors.RedisUnreachable(url=url, reason=failure.text)
