"""Appends where a reply is lost: at-least-once sends them again, and plain XADD doubles them."""

import redis

from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from rta_writers.write.delivery.at_least_once import AtLeastOnceAppender
from tests.integration.writers.appends import append_rows, values
from tests.support import proxy, samples


def test_at_least_once_sends_again_where_a_reply_is_lost(
    shared_server: server.EmbeddedServer, client: redis.Redis, target: Target
) -> None:
    """A group whose reply was lost is sent again: each burst is in the stream, and those of the group are twice."""
    with proxy.between(str(shared_server.socket_path)) as broken, redis_client.connect(broken.url) as through:
        writer = AtLeastOnceAppender(through, target, unit="u", epoch=0)
        for first in range(0, 32, 8):
            if first == 8:
                writer.flush()
                broken.swallow_reply_to(b"XADD")
            append_rows(writer, 8, first)
        assert writer.totals().bursts == 32
        writer.close()
        assert (broken.swallowed, writer.outages) == (1, 1)
    assert sorted(values(client)) == sorted([*map(float, range(32)), *map(float, range(8, 16))])


def test_plain_xadd_doubles_where_a_reply_is_lost(shared_server: server.EmbeddedServer, client: redis.Redis) -> None:
    """The control: the same fault with redis-py's own retries writes entries twice, so the fault is real."""
    with proxy.between(str(shared_server.socket_path)) as broken, redis.Redis(port=broken.port) as naive:
        pipe = naive.pipeline(transaction=False)
        for burst in samples.bursts(8):
            pipe.xadd("stream:rig", {"id": "7", "data": burst.data})
        broken.swallow_reply_to(b"XADD")
        pipe.execute()
    assert len(values(client)) == 16
