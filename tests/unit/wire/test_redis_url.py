"""URLs of one server, Sentinels and Clusters, with and without their passwords."""

import pytest

from rta_wire import errors, redis_url
from rta_wire.redis_url import RedisMode, RedisUrl


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("redis://h:1/2", RedisUrl(RedisMode.SINGLE, "redis://h:1/2")),
        ("rediss://u:p@h", RedisUrl(RedisMode.SINGLE, "rediss://u:p@h")),
        ("unix:///run/x.sock?db=1", RedisUrl(RedisMode.SINGLE, "unix:///run/x.sock?db=1")),
        (
            "redis+sentinel://a:1,b,[::1]:3/main/5",
            RedisUrl(
                RedisMode.SENTINEL,
                "redis+sentinel://a:1,b,[::1]:3/main/5",
                (("a", 1), ("b", 26379), ("::1", 3)),
                "main",
                database=5,
            ),
        ),
        (
            "rediss+sentinel://u:p%40x@a:1/my%20name?x=1",
            RedisUrl(
                RedisMode.SENTINEL,
                "rediss+sentinel://u:p%40x@a:1/my%20name?x=1",
                (("a", 1),),
                "my name",
                "rediss",
                "u:p%40x@",
                0,
                "?x=1",
            ),
        ),
        (
            "redis+cluster://a,b:7001/",
            RedisUrl(RedisMode.CLUSTER, "redis+cluster://a,b:7001/", (("a", 6379), ("b", 7001))),
        ),
    ],
)
def test_urls_are_read(url: str, found: RedisUrl) -> None:
    """Each form, with defaults filled in."""
    assert redis_url.parse(url) == found


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("localhost:6379", "no scheme"),
        ("http://h", "is not known"),
        ("redis+magic://h", "is not known"),
        ("redis+sentinel://h:1", "name of the master is missing"),
        ("redis+sentinel://h:1/", "name of the master is missing"),
        ("redis+sentinel://h:1/main/x", "not a number"),
        ("redis+sentinel://h:1,/main", "is not host:port"),
        ("redis+sentinel://h:0/main", "is not host:port"),
        ("redis+sentinel://[::1/main", "is not host:port"),
        ("redis+cluster://", "is not host:port"),
        ("redis+cluster://h:70000", "is not host:port"),
        ("redis+cluster://h:1/3", "database 0 only"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, reason: str) -> None:
    """Where it stands, what is wrong, and how it should look; never a password."""
    with pytest.raises(errors.BadConfiguration, match=reason) as caught:
        redis_url.parse(url.replace("://h", "://u:secret@h"), where="redis.url")
    assert "redis.url" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_nodes_get_the_account_of_the_url() -> None:
    """User, password, database and query go to each server that is found."""
    sentinels = redis_url.parse("rediss+sentinel://u:p@a:1/main/5?x=1")
    assert sentinels.node_url("10.0.0.1", 6380) == "rediss://u:p@10.0.0.1:6380/5?x=1"
    assert sentinels.node_url("::1", 6380) == "rediss://u:p@[::1]:6380/5?x=1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1", "redis://h:1"),
        ("redis://:secret@h", "redis://:***@h"),
        ("rediss://me:se@cret@h/0", "rediss://me:***@h/0"),
    ],
)
def test_passwords_stay_out_of_what_people_see(url: str, shown: str) -> None:
    """A URL in a log or an error has no password."""
    assert redis_url.redact(url) == shown
