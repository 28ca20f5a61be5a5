"""The time indexes of sessions: those that were used last are in memory, and in the cache for a gateway that starts
again. They are extended in the background.
"""

import collections
from typing import Final

import anyio.to_thread

from rta_supervisor.gateway.rest.data.index import stored_index
from rta_supervisor.gateway.rest.data.index.index_builder import IndexBuilder
from rta_supervisor.gateway.rest.data.index.index_cache import IndexCache
from rta_supervisor.gateway.rest.data.index.stream_index import StreamIndex
from rta_supervisor.gateway.rest.data.session_samples import OnBadEntry
from rta_supervisor.gateway.rest.data.stream_blocks import SessionEntries
from rta_wire.codec.layout import Plan

INDEX_MAX_BYTES: Final = 128 * 1024 * 1024
"""Of all indexes in memory. The one that was not used for longest goes first."""

PAGES_AT_ONCE: Final = 8
"""Pages that one index is extended by before another one has its turn."""

SAVE_MIN_BLOCKS: Final = 16
SAVE_SHARE: Final = 4
"""An index is saved when it has grown by so many blocks, and by this part of what was saved: each is written a few
times in all."""


class IndexStore:
    """Opens and extends indexes."""

    def __init__(self, builder: IndexBuilder, cache: IndexCache) -> None:
        self._builder = builder
        self._cache = cache
        # Files are read and written one at a time.
        self._limiter = anyio.CapacityLimiter(1)
        self._indexes: collections.OrderedDict[str, SessionIndex] = collections.OrderedDict()

    async def open(self, stream: str, stream_session_id: int, after: str, layouts: Plan) -> "SessionIndex":
        """The index of the entries of a session after an id, as far as it is made."""
        key = stored_index.key_of(stream, stream_session_id, after, layouts=layouts)
        if key not in self._indexes:
            index = SessionIndex(self, key, StreamIndex(after))
            if self._cache.is_there:
                await anyio.to_thread.run_sync(self._load, index, limiter=self._limiter)
            self._indexes.setdefault(key, index)
        self._indexes.move_to_end(key)
        return self._indexes[key]

    async def extend(self, index: "SessionIndex", entries: SessionEntries, layouts: Plan, on_bad: OnBadEntry) -> None:
        """Have an index reach to the end of its stream."""
        is_first = True

        async def extend_some() -> bool:
            nonlocal is_first
            if is_first:
                is_first = False
                await index.stream_index.forget_trimmed(entries)
            is_done = await index.stream_index.extend(entries, layouts, on_bad, pages=PAGES_AT_ONCE)
            if index.is_due and self._cache.is_there:
                await anyio.to_thread.run_sync(self._save, index, limiter=self._limiter)
            return is_done

        await self._builder.extend(index.stream_index, extend_some)

    def make_room(self) -> int:
        """Forget indexes where there are too many. Gives how much memory the others take."""
        total = sum(index.stream_index.size_bytes for index in self._indexes.values())
        while total > INDEX_MAX_BYTES and len(self._indexes) > 1:
            _, oldest = self._indexes.popitem(last=False)
            total -= oldest.stream_index.size_bytes
        return total

    def _load(self, index: "SessionIndex") -> None:
        data = self._cache.load(index.key)
        if data is None:
            return
        if stored_index.load_index(index.key, data, index.stream_index):
            index.note_saved()
        else:
            self._cache.remove(index.key)

    def _save(self, index: "SessionIndex") -> None:
        self._cache.save(index.key, stored_index.dump_index(index.key, index.stream_index))
        index.note_saved()


class SessionIndex:
    """The index of one session, and what of it the cache has."""

    def __init__(self, store: IndexStore, key: str, stream_index: StreamIndex) -> None:
        self._store = store
        self.key = key
        self.stream_index = stream_index
        self._saved = (0, False)

    async def extend(self, entries: SessionEntries, layouts: Plan, on_bad: OnBadEntry) -> None:
        """Read on up to the end of the stream. It goes on if whoever waits for it gives up."""
        await self._store.extend(self, entries, layouts, on_bad)

    def note_saved(self) -> None:
        """The cache has it as it is now."""
        self._saved = len(self.stream_index.blocks), self.stream_index.is_complete

    @property
    def is_due(self) -> bool:
        """Whether it has become so much longer, or complete, that it is worth to be saved."""
        saved, was_complete = self._saved
        if self.stream_index.is_complete:
            return not was_complete and len(self.stream_index.blocks) >= SAVE_MIN_BLOCKS
        return len(self.stream_index.blocks) - saved >= max(SAVE_MIN_BLOCKS, saved // SAVE_SHARE)
