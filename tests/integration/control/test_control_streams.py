"""How much is read of control streams at a time, by what their entries took."""

from typing import Any

import redis

from rta_supervisor.control.control_streams import ControlStreams
from rta_supervisor.control.read_size import READ_TARGET_BYTES
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys, limits

KEY = keys.Keys().reports("default")
BATCH = settings.Settings().control.batch


async def _count_after(link: Link, client: redis.Redis, fields: dict[Any, Any]) -> int:
    """How many entries are read next, after some with these fields."""
    streams = ControlStreams("reports", {KEY: "default"}, link, settings.Settings(), "reader")
    await streams.create_groups()
    for _ in range(10):
        await streams.read_new([KEY], count=streams.fitting([KEY], BATCH))
    assert streams.fitting([KEY], BATCH) == BATCH
    for _ in range(3):
        client.xadd(KEY, fields)
    entries = await streams.read_new([KEY], count=BATCH)
    assert [entry.raw for entry in entries] == [fields.get(keys.CONTROL_FIELD)] * 3
    await streams.acknowledge(entries)
    return streams.fitting([KEY], BATCH)


async def test_few_entries_are_read_after_large_ones(link: Link, client: redis.Redis) -> None:
    """Whatever field makes them large, or very many of them."""
    large = b"x" * limits.MIB
    assert await _count_after(link, client, {keys.CONTROL_FIELD: b"m"}) == BATCH
    for fields in ({keys.CONTROL_FIELD: large}, {b"x": large}, {large: b"x"}):
        assert await _count_after(link, client, fields) == READ_TARGET_BYTES // limits.MIB - 1, "and a name"
    many = {b"%d" % number: b"" for number in range(50_000)}
    assert await _count_after(link, client, {keys.CONTROL_FIELD: b"m", **many}) == 1
