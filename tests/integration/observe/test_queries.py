"""What is read from Redis for people."""

import redis

from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.stream import cold_index


async def test_a_stream_of_which_only_the_cold_part_is_left(link: Link, client: redis.Redis) -> None:
    """Its live part expired or was removed by somebody: it is listed, with the times of its batches."""
    names = keys.Keys()
    extent = cold_index.ColdExtent(
        *("1000-0", "2000-0"),
        entries=7,
        batches=1,
        added=7,
        size_bytes=9,
        live_bytes=9,
        raw_bytes=9,
        number=3,
        noted_ms=1,
    )
    client.hset(names.cold_index(), "rig", cold_index.dump(extent))
    client.zadd(names.streams_used(), {"rig": 1})
    [stream] = await RedisQueries(link, settings.Settings()).streams([])
    assert (stream.entries, stream.cold_entries, stream.first_ms, stream.last_ms) == (0, 7, 1000, 2000)
