"""Errors of Redis: which pass, which are permanent, and what people are told."""

import pytest
import redis.exceptions

from rta_supervisor.transport import failures
from rta_wire import errors

URL = "redis://user:rosebud@host:1/0"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (redis.exceptions.ResponseError("LOADING Redis is loading"), failures.TemporaryRefusal),
        (redis.exceptions.ResponseError("NOGROUP No such consumer group"), failures.DataLost),
        (redis.exceptions.ResponseError("ERR Function not found"), failures.DataLost),
        (redis.exceptions.ResponseError("WRONGTYPE Operation against a key"), redis.exceptions.ResponseError),
    ],
)
def test_error_replies_are_sorted(error: Exception, kind: type[Exception]) -> None:
    """A reply that passes or means lost data is the cause of its kind; a permanent one stays as it is."""
    classified = failures.classify(error)
    assert type(classified) is kind
    assert classified is error or classified.__cause__ is error


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (redis.exceptions.ConnectionError("Error 111 connecting to host:1"), errors.RedisUnreachable, "connecting"),
        (redis.exceptions.OutOfMemoryError("command not allowed"), errors.RedisFull, "not allowed"),
        (redis.exceptions.ReadOnlyError("You can't write"), errors.RedisUnsuitable, "Name the primary"),
        (redis.exceptions.NoPermissionError("this user has no permissions"), errors.RedisRefused, "NOPERM"),
        (failures.classify(redis.exceptions.OutOfMemoryError("no room")), errors.RedisFull, "no room"),
        (failures.DataLost("rtas:ctl:default: no such key"), errors.RedisUnreachable, "no such key"),
    ],
)
def test_errors_for_people(error: Exception, kind: type[errors.RtaError], reason: str) -> None:
    """Each error of Redis becomes an error with the address and the reason, without the password."""
    named = failures.to_rta_error(URL, error)
    assert type(named) is kind
    assert reason in str(named)
    assert "user:***@host" in str(named)
