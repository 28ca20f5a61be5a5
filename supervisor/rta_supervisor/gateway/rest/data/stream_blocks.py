"""Reads the entries of one session from its stream, live and cold as one.

Which part holds the next entries is decided by `rta_wire.stream.live_then_cold`.
"""

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.gateway.rest.data.time_index import Block
from rta_supervisor.transport import failures, replies
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, keys
from rta_wire.stream import cold_index, cursor

decode_limiter: Final = anyio.CapacityLimiter(2)
"""Requests are decoded and encoded in so many threads."""


class SessionEntries:
    """The entries of one session. One reader for each request: it keeps the last batch that it unpacked."""

    def __init__(self, link: Link, names: keys.Keys, stream: str, stream_session_id: int) -> None:
        self._link = link
        self._names = names
        self._stream = stream
        self._key = keys.stream(stream)
        self._cold = ColdReader(link, names, stream)
        self._number = str(stream_session_id).encode()
        self._batch_after = ""
        self._batch = cursor.EMPTY_PAGE

    async def bounds(self) -> tuple[str, str]:
        """The first entry of the stream that is left, live or cold, and the last id that it ever gave; the highest id
        there can be where there is none."""
        live, raw_extent, raw_info = await self._link.try_all(
            [
                ("XRANGE", self._key, "-", "+", "COUNT", 1),
                ("HGET", self._names.cold_index(), self._stream),
                replies.stream_info_command(self._key),
            ]
        )
        for reply in (live, raw_extent):
            if isinstance(reply, Exception):
                raise failures.classify(reply)
        info = replies.parse_stream_info(raw_info)
        last_id = entry_ids.MAX if info is None else replies.last_generated_id(info)
        extent = cold_index.parse(raw_extent)
        if extent is not None:
            return extent.first_id, last_id
        return (id_of(live[0]) if live else entry_ids.MAX), last_id

    async def page(self, after: str, until: str, count: int) -> cursor.StreamPage:
        """The entries of the stream right after an id, of all sessions: so many live ones, or those of a cold batch."""
        if self._batch.entries and not entry_ids.is_after(self._batch_after, after):
            last_id = id_of(self._batch.entries[-1])
            if entry_ids.is_after(last_id, after):
                kept = [entry for entry in self._batch.entries if entry_ids.is_after(id_of(entry), after)]
                return self._batch._replace(entries=kept)
        raw = await self._link.do("XRANGE", self._key, f"({after}", until, "COUNT", count)
        live = [(entry_id, pairs_to_dict(fields)) for entry_id, fields in raw]
        is_complete = len(live) < count
        read = await self._cold.next_page(
            cursor.StreamPage(live, 0, 0, None, entry_ids.MIN, is_complete=is_complete), after
        )
        if read.entries and read.entries is not live:
            self._batch_after, self._batch = after, read
        return read

    async def read(self, after: str, until: str, entries: int) -> list[cursor.StreamEntry]:
        """Entries of the session after an id, up to and with another. `entries`: how many of all sessions there are."""
        found: list[cursor.StreamEntry] = []
        while entry_ids.is_after(until, after):
            page = await self.page(after, until, entries + 1)
            found += [entry for entry in self.own(page) if not entry_ids.is_after(entry.id, until)]
            if page.is_complete or not page.entries:
                break
            after = id_of(page.entries[-1])
        return found

    def own(self, page: cursor.StreamPage) -> list[cursor.StreamEntry]:
        """The entries of the session in a page. Those of other programs, in another form, are none of it."""
        return [
            cursor.StreamEntry(id_of((raw_id, fields)), int(self._number), fields[keys.ENTRY_DATA])
            for raw_id, fields in page.entries
            if fields.get(keys.ENTRY_ID) == self._number and keys.ENTRY_DATA in fields
        ]


def id_of(entry: tuple[bytes, object]) -> str:
    """The id of an entry as Redis gives it."""
    return entry[0].decode()


def clip(blocks: Sequence[Block], ranges: Sequence[tuple[str, str]]) -> list[Block]:
    """The blocks as far as they are in some ranges of ids, each after one id and up to another."""
    clipped = []
    for block in blocks:
        for after, until in ranges:
            low = max(block.after, after, key=entry_ids.parse)
            high = min(block.until, until, key=entry_ids.parse)
            if (low, high) == (block.after, block.until):
                clipped.append(block)
            elif entry_ids.is_after(high, low):
                clipped.append(msgspec.structs.replace(block, after=low, until=high, cells=None))
    return clipped
