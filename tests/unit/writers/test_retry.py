"""What a writer or a reader says of trouble with Redis."""

import pytest
import redis.exceptions

from rta_writers.connection import retry

SECRET = "s3cret"  # noqa: S105 - of no server


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (redis.exceptions.ConnectionError("gone"), "RedisUnreachable"),
        (redis.exceptions.OutOfMemoryError("command not allowed"), "RedisFull"),
        (redis.exceptions.AuthenticationError("invalid password"), "RedisRefused"),
    ],
)
def test_trouble_is_named_without_the_password(error: Exception, name: str) -> None:
    """Errors of tasks end in Spark's logs and on its pages."""
    reported = retry.to_rta_error(f"redis://:{SECRET}@localhost:1", error)
    assert type(reported).__name__ == name
    assert "localhost:1" in str(reported)
    assert SECRET not in str(reported)
