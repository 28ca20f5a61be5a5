"""Where a tail begins: at the end of its streams, at their start, at a time, or so many entries before the end.

Reads backwards, newest first, live and cold alike, and no further than is asked for.
"""

import heapq
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import live_then_cold

FIRST_PAGE_ENTRIES: Final = 16
PAGE_MAX_ENTRIES: Final = 1024
PAGE_BYTES: Final = 1024 * 1024
"""About how much of a live stream one reply of Redis holds."""


class TailStart(msgspec.Struct, frozen=True):
    """Where to begin. With none of these: behind the last entry that is there."""

    is_from_start: bool = False
    """Before the first entry."""
    last_entries: int = 0
    """So many entries before the end."""
    since_ms: int | None = None
    """Before the first entry that was added at this time or later."""


async def newest_ids(
    link: Link, names: keys.Keys, stream: str, count: int, *, after: str = entry_ids.MIN, session: int | None = None
) -> list[str]:
    """The ids of the newest entries of a stream after an id, at most `count`, newest first.

    `session`: only entries of the session with this number.
    """
    ids: list[str] = []
    number = None if session is None else str(session).encode()
    async for page in pages_backwards(link, names, stream, after):
        ids += [entry.id for entry in page if number is None or entry.by_name().get(keys.ENTRY_ID) == number]
        if len(ids) >= count:
            break
    return ids[:count]


async def oldest_of_newest(link: Link, names: keys.Keys, streams: Iterable[str], count: int) -> dict[str, str]:
    """Of the newest `count` entries of several streams together the oldest id in each stream; a stream that has none of
    them is left out. Streams with newer entries should come last."""
    newest: list[tuple[tuple[int, int], str, str]] = []
    for stream in reversed(list(streams)):
        # What is older than all that were found can't be among them.
        after = newest[-1][1] if len(newest) == count else entry_ids.MIN
        ids = await newest_ids(link, names, stream, count, after=after)
        newest = heapq.nlargest(count, [*newest, *((entry_ids.parse(entry_id), entry_id, stream) for entry_id in ids)])
    return {stream: entry_id for _, entry_id, stream in newest}


def position_since(since_ms: int, last_id: str) -> str:
    """The position before the first entry that was added at a time or later; the end of a stream that ended before."""
    return min(entry_ids.previous_id(entry_ids.format_id(max(since_ms, 1))), last_id, key=entry_ids.parse)


async def pages_backwards(link: Link, names: keys.Keys, stream: str, after: str) -> AsyncIterator[list[RawEntry]]:
    """Entries of a stream after an id, newest first: live ones, then what is cold below them."""
    read = live_then_cold.BackwardRead(after)
    count = FIRST_PAGE_ENTRIES
    while True:
        reply = await link.do("XREVRANGE", keys.stream(stream), *read.live_range, "COUNT", count)
        if reply:
            page = [RawEntry(raw_id.decode(), tuple(fields)) for raw_id, fields in reply]
            read.take_live(page[-1].id)
            yield page
        if len(reply) < count:
            break
        size = sum(len(field) for entry in page for field in entry.fields)
        count = min(max(PAGE_BYTES * len(page) // max(size, 1), 1), PAGE_MAX_ENTRIES)
    async for cold_page in ColdReader(link, names, stream).pages_backwards(read):
        yield cold_page
