"""The check that runs after every test, checked itself."""

import redis

from tests.support import ttl_check


def test_a_key_that_would_live_for_ever_is_found(client: redis.Redis) -> None:
    """A reply, a mark or a session without a lifetime is found; what may stay is not."""
    client.set("lastStreamSessionId", 1)
    client.sadd("streams", "rig")
    client.xadd("rtas:dlq", {"a": "b"})
    client.set("rtas:reply:x", "1", ex=100)
    assert ttl_check.keys_without_ttl(client) == []
    for name in ("rtas:reply:x", "rtas:gate:{stream:rig}:1", "sessions:run", "rtas:dd:{stream:rig}:1", "rtas:node:n"):
        client.set(name, "1")
        assert ttl_check.keys_without_ttl(client) == [name]
        client.delete(name)
