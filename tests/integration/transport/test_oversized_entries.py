"""Entries of very many fields or bytes, which keep Redis busy whenever it is asked where their stream ends."""

from typing import Any

import pytest
import redis

from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.settings import settings
from rta_supervisor.transport import oversized_entries
from rta_supervisor.transport.link import Link
from rta_wire import keys, limits
from tests.support.supervisor_parts import opened

LARGEST = oversized_entries.FIELDS_MAX


def add(client: redis.Redis, *field_counts: int) -> list[bytes]:
    """Add entries with so many fields to the stream. Gives their ids."""
    ids: list[Any] = [
        client.execute_command("XADD", "stream:rig", "*", *(["id", "1"] * count)) for count in field_counts
    ]
    return ids


def read_ids(client: redis.Redis) -> list[bytes]:
    entries: Any = client.xrange("stream:rig")
    return [entry_id for entry_id, _ in entries]


async def test_an_open_removes_them_from_both_ends(link: Link, client: redis.Redis) -> None:
    """Several at each end; what has as many fields as an entry may have stays."""
    ids = add(client, LARGEST + 1, LARGEST + 1, LARGEST, 2, LARGEST + 1)
    await opened(link)
    assert read_ids(client)[:2] == ids[2:4]
    assert ids[4] not in read_ids(client)


async def test_an_open_removes_entries_of_very_many_bytes(link: Link, client: redis.Redis) -> None:
    """No burst is that large, and each open would read it."""
    sizes = [oversized_entries.BYTES_MAX + 1, limits.BURST_MAX_BYTES, oversized_entries.BYTES_MAX + 1]
    ids: list[Any] = [client.xadd("stream:rig", {"id": "1", "data": b"x" * size}) for size in sizes]
    await opened(link)
    assert read_ids(client)[0] == ids[1]
    assert ids[2] not in read_ids(client)


@pytest.mark.parametrize("has_lease", [True, False])
async def test_the_trimmer_removes_them(link: Link, client: redis.Redis, has_lease: bool) -> None:
    """With the lease of its duty only."""
    ids = add(client, LARGEST + 1, 2, LARGEST + 1)
    client.zadd(keys.Keys().streams_used(), {"rig": 1})
    config = settings.Settings(trim=settings.TrimSettings(idle_stream_s=0))
    await (Trimmer(link, config).sweep() if has_lease else Trimmer(link, config).sweep(None))
    assert read_ids(client) == ([ids[1]] if has_lease else ids)


async def test_one_call_ends_after_some_rounds(link: Link, client: redis.Redis) -> None:
    """What is left is removed by the next one."""
    add(client, *[LARGEST + 1] * 25)
    config = settings.Settings(trim=settings.TrimSettings(idle_stream_s=0))
    client.zadd(keys.Keys().streams_used(), {"rig": 1})
    for left in (5, 0):
        await Trimmer(link, config).sweep()
        assert len(read_ids(client)) == left
