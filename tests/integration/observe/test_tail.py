"""A source followed over its days: from its start, from now on, across midnight, and while days are removed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.observe.tail import CaughtUp, SourceTail, TailItem
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, keys
from rta_wire.stream import cursor
from tests.support import cold_streams, samples
from tests.support.cold_streams import NAMES

MONDAY, TUESDAY, WEDNESDAY = (day_streams.Day("rig", 20_500 + n) for n in range(3))


def add(client: redis.Redis, stream: str, *numbers: int) -> None:
    """Entries whose ids are these times, in a stream that is in the index of its source."""
    for number in numbers:
        [burst] = samples.bursts(1, first=number)
        client.xadd(keys.stream(stream), {"id": "7", "data": burst.data}, id=f"{number}-0")
    client.zadd(NAMES.streams_used(), {stream: 1})
    if (day := day_streams.parse(stream)) is not None:
        client.zadd(NAMES.days("rig"), {stream: day.number})
        client.expire(NAMES.days("rig"), 600)


async def next_pass(items: AsyncIterator[tuple[str, TailItem]]) -> list[tuple[str, str]]:
    """Stream and id of each entry up to the next point at which all was read."""
    entries: list[tuple[str, str]] = []
    async for stream, item in items:
        if isinstance(item, CaughtUp):
            return entries
        assert isinstance(item, cursor.StreamEntry), item
        entries.append((stream, item.id))
    raise AssertionError("a source has no end")


@pytest.fixture
def tail(link: Link) -> SourceTail:
    return SourceTail(link, settings.Settings(), "rig")


async def test_a_source_from_its_start(client: redis.Redis, link: Link, tail: SourceTail, tmp_path: Path) -> None:
    """Day by day, cold or live; then what is added to any of them, days that begin, and nothing of one that went."""
    add(client, "rig", 1, 2)
    add(client, MONDAY.stream, *range(3, 210))
    add(client, TUESDAY.stream, 300)
    catalogue = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    await cold_streams.compactor(link, catalogue, cold_streams.config(after_s=0.001)).sweep()
    await catalogue.close()
    assert client.xlen(keys.stream(MONDAY.stream)) == 0
    items = tail.follow(from_start=True)
    expected = [("rig", "1-0"), ("rig", "2-0"), *((MONDAY.stream, f"{n}-0") for n in range(3, 210))]
    assert await next_pass(items) == [*expected, (TUESDAY.stream, "300-0")]
    add(client, MONDAY.stream, 301)
    add(client, WEDNESDAY.stream, 302)
    assert await next_pass(items) == [(MONDAY.stream, "301-0"), (WEDNESDAY.stream, "302-0")]
    client.unlink(keys.stream(MONDAY.stream), keys.cold_stream(MONDAY.stream), keys.stream("rig"))
    client.hdel(NAMES.cold_index(), MONDAY.stream, "rig")
    client.zrem(NAMES.days("rig"), MONDAY.stream)
    client.unlink(keys.stream(WEDNESDAY.stream))
    add(client, TUESDAY.stream, 303)
    assert await next_pass(items) == [(TUESDAY.stream, "303-0")], "a day that was removed is no gap"


async def test_a_source_from_now_on(client: redis.Redis, tail: SourceTail) -> None:
    """Only what is added after the first look, in whichever day, and all of a day that begins after it."""
    add(client, MONDAY.stream, 1, 2)
    items = tail.follow(from_start=False)
    assert await next_pass(items) == []
    add(client, MONDAY.stream, 3)
    add(client, TUESDAY.stream, 4, 5)
    assert await next_pass(items) == [(MONDAY.stream, "3-0"), (TUESDAY.stream, "4-0"), (TUESDAY.stream, "5-0")]


async def test_trimmed_entries_of_a_day_are_a_gap(client: redis.Redis, tail: SourceTail) -> None:
    """With the name of the stream and the number of entries."""
    add(client, MONDAY.stream, 1)
    items = tail.follow(from_start=True)
    assert await next_pass(items) == [(MONDAY.stream, "1-0")]
    add(client, MONDAY.stream, 2, 3, 4)
    client.xtrim(keys.stream(MONDAY.stream), maxlen=1, approximate=False)
    assert await anext(items) == (MONDAY.stream, cursor.Gap("1-0", "4-0", 2))
