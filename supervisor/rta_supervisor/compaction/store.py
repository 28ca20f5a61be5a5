"""Live stream, cold stream and index of one stream in Redis: reads them a bounded part at a time, and changes them
under a lease. In which order is `moving`'s.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from rta_supervisor.compaction import functions
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
"""What one reply of Redis holds of a live stream, about."""

PAGE_FIRST: Final = 16
PAGE_MAX: Final = 1024

compression_limiter: Final = anyio.CapacityLimiter(1)
"""One batch is packed or unpacked at a time: sessions come first."""


class LiveStreamInfo(msgspec.Struct, frozen=True):
    """A live stream at one moment."""

    length: int = 0
    added: int = 0
    first_id: str | None = None
    last_id: str = entry_ids.MIN


class CompactionStore:
    """One stream."""

    def __init__(self, link: Link, names: keys.Keys, stream: str) -> None:
        self._link = link
        self._names = names
        self.stream = stream

    async def live(self) -> LiveStreamInfo:
        info = await replies.read_stream_info(self._link, keys.stream(self.stream))
        if info is None:
            return LiveStreamInfo()
        first = info[b"first-entry"]
        return LiveStreamInfo(
            length=int(info[b"length"]),
            added=int(info[b"entries-added"]),
            first_id=first[0].decode() if first else None,
            last_id=info[b"last-generated-id"].decode(),
        )

    async def index(self) -> ColdExtent | None:
        return cold_index.parse(await self._link.do("HGET", self._names.cold_index(), self.stream))

    async def live_pages(self, after: str, until: str) -> AsyncIterator[list[RawEntry]]:
        """Entries of the live stream, oldest first, some at a time."""
        count = PAGE_FIRST
        key = keys.stream(self.stream)
        while True:
            found = await self._link.do("XRANGE", key, f"({after}", until, "COUNT", count)
            if found:
                yield [RawEntry(raw_id.decode(), tuple(fields)) for raw_id, fields in found]
                after = found[-1][0].decode()
            if len(found) < count:
                return
            size = sum(len(word) for _, fields in found for word in fields)
            count = min(max(PAGE_BYTES * len(found) // max(size, 1), 1), PAGE_MAX)

    async def batch_after(self, after: str, until: str = "+") -> tuple[str, bytes] | None:
        """The next batch of the cold stream, with its id."""
        found = await self._link.do("XRANGE", keys.cold_stream(self.stream), f"({after}", until, "COUNT", 1)
        return first_batch(found)

    async def batch_before(self, before: str) -> tuple[str, bytes] | None:
        """The last one up to an id."""
        return first_batch(await self._link.do("XREVRANGE", keys.cold_stream(self.stream), before, "-", "COUNT", 1))

    async def batch_count(self) -> int:
        count: int = await self._link.do("XLEN", keys.cold_stream(self.stream))
        return count

    async def append_batch(self, entry_id: str, before: str, batch: bytes, until_ms: int) -> None:
        """The stream may be removed meanwhile. Who does so takes it off the list and looks then whether a batch is
        there; one that comes later lists it again, so that somebody finds it."""
        await self._done(functions.append_batch(self.stream, entry_id, before, batch, until_ms=until_ms))
        if await self._link.do("ZSCORE", self._names.streams_used(), self.stream) is None:
            await self._link.do("ZADD", self._names.streams_used(), "NX", now_ms(), self.stream)

    async def remove_batch(self, entry_id: str, until_ms: int) -> None:
        await self._done(functions.remove_batch(self.stream, entry_id, until_ms=until_ms))

    async def replace_index_entry(self, before: ColdExtent | None, after: ColdExtent | None, until_ms: int) -> None:
        was, now = (b"" if one is None else cold_index.dump(one) for one in (before, after))
        await self._done(functions.replace_index_entry(self._names, self.stream, was, now, until_ms=until_ms))

    async def trim_live(self, through: str, until_ms: int) -> None:
        if await self._link.do(*functions.trim_live(self.stream, through, until_ms=until_ms)) < 0:
            raise leases.LeaseExpired

    async def memory_bytes(self) -> int:
        """Live and cold."""
        sizes = [
            await self._link.do("MEMORY", "USAGE", key)
            for key in (keys.stream(self.stream), keys.cold_stream(self.stream))
        ]
        return sum(size or 0 for size in sizes)

    async def _done(self, call: commands.Command) -> None:
        """Refused means that the lease is over, or that somebody else is at work: another pass looks anew."""
        if not await self._link.do(*call):
            raise leases.LeaseExpired


def first_batch(found: Any) -> tuple[str, bytes] | None:
    """From what XRANGE gave. What is no batch is one that can't be read."""
    for raw_id, fields in found:
        return raw_id.decode(), pairs_to_dict(fields).get(keys.COLD_FIELD, b"")
    return None


def read_header(batch: tuple[str, bytes]) -> cold_batch.Header:
    """What a batch says of itself. One that can't be read is named: somebody has to look at it."""
    entry_id, data = batch
    try:
        return cold_batch.read_header(data)
    except errors.BadBatch as error:
        raise errors.BadBatch(reason=f"{entry_id}: {error.facts['reason']}") from error


async def unpack_entries(batch: bytes, after: str = entry_ids.MIN, until: str | None = None) -> list[RawEntry]:
    """Entries of a batch, without holding up anybody."""
    return await anyio.to_thread.run_sync(cold_batch.unpack_entries, batch, after, until, limiter=compression_limiter)
