"""URLs of one server, Sentinels and Clusters, and slots of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.transport import cluster
from rta_wire import errors, keys, redis_url
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
    ("key", "slot"),
    [("", 0), ("foo", 12182), ("123456789", 12739), ("{user1000}.following", 3443), ("{user1000}.followers", 3443)],
)
def test_slots_are_those_of_redis(key: str, slot: int) -> None:
    """As CLUSTER KEYSLOT answers."""
    assert keys.key_slot(key) == slot


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
texts = st.text(min_size=1, max_size=20).filter(lambda text: not set(text) & set("{}\ud800"))


@given(stream=names, identity=texts, unit=texts, number=st.integers(1, 2**53), prefix=st.sampled_from(["rtas:", "x"]))
def test_what_is_used_together_lives_in_one_slot(
    stream: str, identity: str, unit: str, number: int, prefix: str
) -> None:
    """Keys of one function, one transaction or one command never meet CROSSSLOT."""
    ours = keys.Keys(prefix=prefix)
    place = stream, number
    beside_a_stream = {
        *(ours.gate(*place), ours.marks(*place), ours.fence(*place, unit), ours.published(*place)),
        *(ours.staged(*place, "attempt"), ours.manifest(*place, unit, 7)),
    }
    assert {keys.key_slot(key) for key in beside_a_stream} == {keys.key_slot(keys.stream(stream))}
    assert keys.key_slot(ours.session_state(identity)) == keys.key_slot(ours.session(identity))
    for lane in (ours.requests(identity), ours.reports(identity)):
        assert keys.key_slot(ours.control_counters(lane)) == keys.key_slot(lane)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (("FCALL", "rtas_keep_1", 2, "stream:rig", "rtas:gate:{stream:rig}:1", 1), "stream:rig"),
        (("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "BLOCK", 5, "STREAMS", "rtas:req:p", ">"), "rtas:req:p"),
        (("XINFO", "STREAM", "stream:rig"), "stream:rig"),
        (("XAUTOCLAIM", b"rtas:req:p", "g", "c", 1, "0"), "rtas:req:p"),
        (("HGET", "sessions:a", "json"), "sessions:a"),
    ],
)
def test_a_command_goes_to_the_slot_of_its_key(call: tuple[str | int | bytes, ...], key: str) -> None:
    """Wherever in the command the key stands."""
    assert cluster.slot_of(call) == keys.key_slot(key)


def test_a_prefix_with_braces_is_refused() -> None:
    """It would become a hash tag and tear apart what belongs together."""
    with pytest.raises(errors.BadConfiguration, match=r"keys\.prefix"):
        keys.Keys(prefix="{x}:")
