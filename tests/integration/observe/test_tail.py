"""A source followed over its days: from its start, from now on, from its last entries or from a time, across midnight,
and while days are removed."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.observe.tail import CaughtUp, SessionTail, SourceTail, TailItem
from rta_supervisor.observe.tail_start import TailStart
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, entry_ids, keys
from rta_wire.cold.lz4_roundtrip import RawEntry
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
    items = tail.follow(TailStart(is_from_start=True))
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
    items = tail.follow(TailStart())
    assert await next_pass(items) == []
    add(client, MONDAY.stream, 3)
    add(client, TUESDAY.stream, 4, 5)
    assert await next_pass(items) == [(MONDAY.stream, "3-0"), (TUESDAY.stream, "4-0"), (TUESDAY.stream, "5-0")]


async def test_trimmed_entries_of_a_day_are_a_gap(client: redis.Redis, tail: SourceTail) -> None:
    """With the name of the stream and the number of entries."""
    add(client, MONDAY.stream, 1)
    items = tail.follow(TailStart(is_from_start=True))
    assert await next_pass(items) == [(MONDAY.stream, "1-0")]
    add(client, MONDAY.stream, 2, 3, 4)
    client.xtrim(keys.stream(MONDAY.stream), maxlen=1, approximate=False)
    assert await anext(items) == (MONDAY.stream, cursor.Gap("1-0", "4-0", 2))


@hypothesis_settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    days=st.lists(st.integers(0, 2), max_size=60),
    trimmed=st.integers(0, 10),
    last=st.integers(1, 70),
    since=st.integers(0, 70),
)
async def test_where_a_source_begins(
    client: redis.Redis, link: Link, days: list[int], trimmed: int, last: int, since: int
) -> None:
    """Against a list: entries in turn in three days, by time and by number, however much was trimmed before them."""
    client.flushdb()
    streams = [MONDAY.stream, TUESDAY.stream, WEDNESDAY.stream]
    entries: list[tuple[str, str]] = []
    for number, day in enumerate(days, start=1):
        add(client, streams[day], number)
        entries.append((streams[day], f"{number}-0"))
    for stream in streams:
        client.xtrim(keys.stream(stream), minid=f"{trimmed}-0", approximate=False)
    left = [entry for entry in entries if entry_ids.ms_of(entry[1]) >= trimmed]

    async def first_pass(start: TailStart) -> list[tuple[str, str]]:
        return await next_pass(SourceTail(link, settings.Settings(), "rig").follow(start))

    def in_order(expected: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(expected, key=lambda entry: (streams.index(entry[0]), entry_ids.parse(entry[1])))

    assert await first_pass(TailStart(last_entries=last)) == in_order(left[-last:])
    shown: list[tuple[str, str]] = []
    gaps: set[str] = set()
    async for stream, item in SourceTail(link, settings.Settings(), "rig").follow(TailStart(since_ms=since)):
        if isinstance(item, CaughtUp):
            break
        if isinstance(item, cursor.Gap):
            gaps.add(stream)
        else:
            assert isinstance(item, cursor.StreamEntry)
            shown.append((stream, item.id))
    assert shown == in_order([entry for entry in left if entry_ids.ms_of(entry[1]) >= since])
    # Whether trimmed entries came before that time is not known where none that is left did.
    unsure = {stream for stream, _ in set(entries) - set(left)} - {
        stream for stream, entry_id in left if entry_ids.ms_of(entry_id) < since
    }
    assert gaps <= unsure


async def test_where_a_session_begins(client: redis.Redis, link: Link, tmp_path: Path) -> None:
    """With its own last entries among those of others, over live and cold, and not before its first one."""
    numbers = [(n, 8 if n % 3 else 7) for n in range(1, 301)]
    entries = [
        RawEntry(f"{n}-0", (b"id", str(number).encode(), b"data", samples.bursts(1, first=n)[0].data))
        for n, number in numbers
    ]
    cold_streams.fill(client, "rig", entries[:200])
    catalogue = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    await cold_streams.compactor(link, catalogue, cold_streams.config(after_s=0.001)).sweep()
    await catalogue.close()
    assert client.xlen("stream:rig") == 0
    cold_streams.fill(client, "rig", entries[200:])
    fields: Any = {"streamName": "rig", "streamSessionId": 7, "streamPosition": "29-5", "lastUpdated": 1}
    client.hset(NAMES.session("run"), mapping=fields)
    client.hset(NAMES.session_state("run"), mapping={"state": "open"})
    for key in (NAMES.session("run"), NAMES.session_state("run")):
        client.expire(key, 100)
    ours = [f"{n}-0" for n, number in numbers if number == 7 and n >= 30]
    for last in (1, 5, 33, 34, 60, len(ours), 1000):
        assert await _session_ids(link, TailStart(last_entries=last)) == ours[-last:], last
    for since in (1, 30, 150, 200, 201, 299, 300, 301, time.time_ns() // 10**6):
        wanted = [entry_id for entry_id in ours if entry_ids.ms_of(entry_id) >= since]
        assert await _session_ids(link, TailStart(since_ms=since)) == wanted, since


async def _session_ids(link: Link, start: TailStart) -> list[str]:
    ids: list[str] = []
    async for item in SessionTail(link, settings.Settings(), "run").follow(start):
        if isinstance(item, CaughtUp):
            break
        assert isinstance(item, cursor.StreamEntry), item
        ids.append(item.id)
    return ids
