"""The live stream, the cold stream and the index entry of one stream in Redis: reads them a bounded part at a time, and
changes them under a lease.

The order of the changes is up to `mover`, `repair` and `cold_trimmer`.
"""

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import msgspec

from rta_supervisor.compaction import server_functions
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.transport import commands, replies
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys
from rta_wire.cold import batch as cold_batch
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cold_index
from rta_wire.stream.cold_index import ColdExtent

PAGE_BYTES: Final = 1024 * 1024
"""About how much of a live stream one reply of Redis holds."""

FIRST_PAGE_ENTRIES: Final = 16
PAGE_MAX_ENTRIES: Final = 1024


class LiveStreamInfo(msgspec.Struct, frozen=True):
    """A live stream at one moment."""

    length: int = 0
    added: int = 0
    """Entries that were ever added."""
    first_id: str | None = None
    last_id: str = entry_ids.MIN


class StoredBatch(NamedTuple):
    """A batch in the cold stream. Its id is that of its last entry."""

    id: str
    data: bytes

    def header(self) -> cold_batch.Header:
        """What the batch says about its content. Raises `BadBatch` with the id of a batch that can't be read."""
        try:
            return cold_batch.read_header(self.data)
        except errors.BadBatch as error:
            raise errors.BadBatch(reason=f"{self.id}: {error.facts['reason']}") from error


class CompactionStore:
    """One stream in Redis. A change raises `LeaseExpired` if the lease is over or another supervisor made one first."""

    def __init__(self, link: Link, names: keys.Keys, stream: str) -> None:
        self._link = link
        self._names = names
        self.stream = stream

    async def live_info(self) -> LiveStreamInfo:
        info = await replies.read_stream_info(self._link, keys.stream(self.stream))
        if info is None:
            return LiveStreamInfo()
        first = info[b"first-entry"]
        return LiveStreamInfo(
            length=int(info[b"length"]),
            added=int(info[b"entries-added"]),
            first_id=first[0].decode() if first else None,
            last_id=replies.last_generated_id(info),
        )

    async def extent(self) -> ColdExtent | None:
        """The index entry of the stream, None where nothing of it is cold."""
        return cold_index.parse(await self._link.do("HGET", self._names.cold_index(), self.stream))

    async def live_pages(self, after: str, until: str) -> AsyncIterator[list[RawEntry]]:
        """Entries of the live stream after one id and up to another, oldest first, a page at a time."""
        count = FIRST_PAGE_ENTRIES
        key = keys.stream(self.stream)
        while True:
            entries = await self._link.do("XRANGE", key, f"({after}", until, "COUNT", count)
            if entries:
                yield [RawEntry(raw_id.decode(), tuple(fields)) for raw_id, fields in entries]
                after = entries[-1][0].decode()
            if len(entries) < count:
                return
            size = sum(len(field) for _, fields in entries for field in fields)
            count = min(max(PAGE_BYTES * len(entries) // max(size, 1), 1), PAGE_MAX_ENTRIES)

    async def batch_after(self, after: str, until: str = "+") -> StoredBatch | None:
        """The first batch after one id and up to another."""
        return _first_batch(
            await self._link.do("XRANGE", keys.cold_stream(self.stream), f"({after}", until, "COUNT", 1)
        )

    async def batch_before(self, before: str) -> StoredBatch | None:
        """The last batch up to an id."""
        return _first_batch(await self._link.do("XREVRANGE", keys.cold_stream(self.stream), before, "-", "COUNT", 1))

    async def batch_count(self) -> int:
        count: int = await self._link.do("XLEN", keys.cold_stream(self.stream))
        return count

    async def append_batch(self, entry_id: str, before: str, data: bytes, until_ms: int) -> None:
        """Add a batch after the batch `before`.

        The stream may be removed by another supervisor meanwhile, which takes it off the list first and then looks
        whether a batch is there. A batch that comes later lists the stream again, so that the next sweep finds it.
        """
        await self._change(server_functions.append_batch(self.stream, entry_id, before, data, until_ms=until_ms))
        if await self._link.do("ZSCORE", self._names.streams_used(), self.stream) is None:
            await self._link.do("ZADD", self._names.streams_used(), "NX", now_ms(), self.stream)

    async def remove_batch(self, entry_id: str, until_ms: int) -> None:
        await self._change(server_functions.remove_batch(self.stream, entry_id, until_ms=until_ms))

    async def replace_extent(self, before: ColdExtent | None, after: ColdExtent | None, until_ms: int) -> None:
        old, new = (b"" if extent is None else cold_index.dump(extent) for extent in (before, after))
        await self._change(server_functions.replace_index_entry(self._names, self.stream, old, new, until_ms=until_ms))

    async def trim_live(self, through: str, until_ms: int) -> None:
        """Remove entries up to an id from the live stream."""
        if await self._link.do(*server_functions.trim_live(self.stream, through, until_ms=until_ms)) < 0:
            raise leases.LeaseExpired

    async def memory_bytes(self) -> int:
        """The memory that the live and the cold stream take together."""
        sizes = [
            await self._link.do("MEMORY", "USAGE", key)
            for key in (keys.stream(self.stream), keys.cold_stream(self.stream))
        ]
        return sum(size or 0 for size in sizes)

    async def _change(self, command: commands.Command) -> None:
        if not await self._link.do(*command):
            raise leases.LeaseExpired


def _first_batch(entries: Any) -> StoredBatch | None:
    """From the reply of XRANGE. An entry that is no batch becomes one that can't be read."""
    for raw_id, fields in entries:
        return StoredBatch(raw_id.decode(), pairs_to_dict(fields).get(keys.COLD_FIELD, b""))
    return None
