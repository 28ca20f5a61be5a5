"""What the sampler observes of streams: the largest by memory and the longest, and the memory of all, live and cold."""

from pathlib import Path

import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.observe import sampler
from rta_supervisor.observe.sampler import Sampler
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys
from tests.support import cold_streams
from tests.support.cold_streams import NAMES

LARGE = 2_500_000


def add(client: redis.Redis, stream: str, entries: int, size: int) -> None:
    for _ in range(entries):
        client.xadd(keys.stream(stream), {"id": "1", "data": b"x" * size})
    client.zadd(NAMES.streams_used(), {stream: 1})


async def test_a_large_stream_of_few_entries_is_observed(
    client: redis.Redis, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among more and longer streams than are observed one by one, and the longest are still among them."""
    monkeypatch.setattr(sampler, "STREAMS_MAX", 2)
    for number in range(10):
        add(client, f"long-{number}", 20 + number, 10)
    add(client, "large", 2, LARGE)
    observation = await Sampler(link, settings.Settings()).observe()
    observed = {stream.name: stream for stream in observation.streams}
    assert {"large", "long-9", "long-8"} <= set(observed)
    assert len(observed) <= 4
    assert observed["large"].entries == 2
    assert 2 * LARGE <= observed["large"].memory_bytes <= 3 * LARGE
    assert observation.stream_count == 11
    assert observation.live_bytes > observed["large"].memory_bytes
    assert observation.cold_bytes == 0


async def test_large_entries_behind_small_ones_are_counted(client: redis.Redis, link: Link) -> None:
    """Redis estimates the memory of a stream from its first nodes: enough of them are asked for."""
    add(client, "rig", 40, 4000)
    add(client, "rig", 40, 500_000)
    [stream] = (await Sampler(link, settings.Settings()).observe()).streams
    assert stream.memory_bytes > 40 * 500_000 / 2


async def test_the_cold_part_counts(client: redis.Redis, link: Link, tmp_path: Path) -> None:
    """In the sum, and for the stream that it belongs to."""
    cold_streams.fill(client, "rig", cold_streams.sample_entries(50))
    catalogue = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    await cold_streams.compactor(link, catalogue).sweep()
    await catalogue.close()
    observation = await Sampler(link, settings.Settings()).observe()
    [stream] = observation.streams
    assert stream.cold_bytes == client.memory_usage(keys.cold_stream("rig"), samples=100)
    assert observation.cold_bytes == stream.cold_bytes
    assert (stream.entries, observation.live_bytes) == (0, stream.memory_bytes)
