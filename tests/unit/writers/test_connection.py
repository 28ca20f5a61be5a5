"""Addresses that can't be used are named without their password."""

import pytest
import redis

from rta_wire import errors, redis_url
from rta_writers.connection import redis_client

SECRET = "s3cret-pa/ss@word"  # noqa: S105 - of a server that lives for a minute


@pytest.mark.parametrize(
    "url", [f"redis://me:{SECRET}@h", f"redis://:{SECRET}@h:port/0", f"rediss://h?password={SECRET}&db=x"]
)
def test_a_url_that_is_none_is_named_without_its_password(url: str) -> None:
    """Python's own words about it quote a part of it."""
    with pytest.raises((errors.BadConfiguration, redis.exceptions.RedisError)) as caught:
        redis_client.connect(url).ping()
    for part in ("s3cret", "pa/ss", "word"):
        assert part not in str(caught.value).replace("password", "")
    assert "s3cret" not in redis_url.redact(url)
