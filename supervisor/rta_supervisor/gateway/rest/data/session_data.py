"""Where the data of a session is, and how it is decoded: its channels, its blocks in the archive and in the stream, and
the reading of them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import anyio.to_thread

from rta_supervisor.channels.session_channels import ChannelReader
from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest.data import archive_blocks, session_samples, stream_blocks
from rta_supervisor.gateway.rest.data.archive_blocks import ArchiveBlock, ArchivedData
from rta_supervisor.gateway.rest.data.archive_cells import ArchiveCells
from rta_supervisor.gateway.rest.data.archive_store import ArchiveStore
from rta_supervisor.gateway.rest.data.index.index_cache import IndexCache
from rta_supervisor.gateway.rest.data.index.index_store import IndexStore, SessionIndex
from rta_supervisor.gateway.rest.data.session_samples import DecodedEntries
from rta_supervisor.gateway.rest.data.stream_blocks import SessionEntries, decode_limiter
from rta_supervisor.gateway.rest.data.time_index import Block
from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_wire import entry_ids, errors
from rta_wire.channels.model import ChannelList
from rta_wire.chunks.envelope_cells import EnvelopeCells
from rta_wire.codec import layout
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2

T = TypeVar("T")

CELLS_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of cells of archived sessions in memory."""


class SessionData:
    """One session for one request."""

    def __init__(
        self,
        session: ListedSession,
        channel_list: ChannelList,
        layouts: layout.Plan,
        *,
        entries: SessionEntries,
        index: SessionIndex,
        archived: ArchivedData,
        archive_cells: ArchiveCells,
    ) -> None:
        self.session = session
        self.channel_list = channel_list
        self.layouts = layouts
        self._entries = entries
        self._index = index
        self._archived = archived
        self._archive_cells = archive_cells

    @property
    def is_final(self) -> bool:
        """Whether all entries that the session will ever have are known."""
        return self._index.stream_index.is_complete or self._archived.is_whole

    async def blocks(self) -> list[Block]:
        """What there is of the session now: what the archive has, then what only the stream has."""
        if not self._archived.is_whole:
            await self._index.extend(self._entries, self.layouts, self._note_bad)
        return [
            *self._archived.blocks,
            *stream_blocks.clip(self._index.stream_index.blocks, self._archived.stream_ranges),
        ]

    async def read_samples(self, block: Block) -> list[SampleColumns]:
        if isinstance(block, ArchiveBlock):
            return await self._from_archive(archive_blocks.read_samples, block, self.layouts)
        return (await self._read(block)).samples

    async def read_events(self, block: Block, start_ns: int, end_ns: int) -> list[data_pb2.Event]:
        """The events of a block, those of a range of time at least."""
        if isinstance(block, ArchiveBlock):
            return await self._from_archive(archive_blocks.read_events, block, start_ns, end_ns)
        return (await self._read(block)).events

    async def read_cells(self, block: Block) -> EnvelopeCells | None:
        """The samples of a block, summed up; None where they are not."""
        if isinstance(block, ArchiveBlock):
            return await self._from_archive(self._archive_cells.read, block, self.layouts)
        return block.cells

    async def save_cells(self) -> None:
        """Have the cache keep cells of the archive that were made."""
        if self._archived.blocks:
            await anyio.to_thread.run_sync(self._archive_cells.save, limiter=decode_limiter)

    async def _from_archive(self, read: Callable[..., T], block: ArchiveBlock, *arguments: Any) -> T:
        try:
            return await anyio.to_thread.run_sync(read, block, *arguments, limiter=decode_limiter)
        except archive_blocks.READ_ERRORS as error:
            raise errors.ArchiveDamaged(identity=self.session.identity, path=block.path, reason=str(error)) from error

    async def _read(self, block: Block) -> DecodedEntries:
        entries = await self._entries.read(block.after, block.until, block.entries)
        return await anyio.to_thread.run_sync(
            session_samples.decode_entries, entries, self.layouts, self._note_bad, limiter=decode_limiter
        )

    def _note_bad(self, error: errors.BadBurst) -> None:
        log.get().warning("gateway_entry_skipped", stream=self.session.stream, error=str(error))


class SessionDataStore:
    """Opens sessions for requests, and keeps what it found out about them."""

    def __init__(self, parts: GatewayParts, channels: ChannelReader) -> None:
        self._parts = parts
        self._channels = channels
        config = parts.config.gateway
        cache = IndexCache(config.cache_folder, config.cache_bytes)
        self._indexes = IndexStore(parts.indexes, cache)
        self._archive = ArchiveStore(parts)
        self._archive_cells = ArchiveCells(cache, CELLS_MAX_BYTES)

    async def open(self, session: ListedSession) -> SessionData:
        """A session that a request is about."""
        archived = await self._archive.find(session)
        channel_list = await self._read_channels(session, archived)
        layouts = channel_list.layouts()
        if not channel_list.channels and archived.message_files:
            layouts = await self._archive.read_layouts(archived)
        after = max(session.position, archived.stream_after, key=entry_ids.parse)
        index = await self._indexes.open(session.stream, session.stream_session_id, after, layouts)
        self._parts.counts.index_bytes = self._indexes.make_room() + self._archive_cells.size_bytes
        parts = self._parts
        entries = SessionEntries(parts.link, parts.keys, session.stream, session.stream_session_id)
        return SessionData(
            session,
            channel_list,
            layouts,
            entries=entries,
            index=index,
            archived=archived,
            archive_cells=self._archive_cells,
        )

    async def _read_channels(self, session: ListedSession, archived: ArchivedData) -> ChannelList:
        """The channels of the configurations that a session is bound to; the archive has those that are gone."""

        async def read_archived(identifier: str) -> bytes | None:
            return await self._archive.read_config(archived, identifier) if archived.folder else None

        return (await self._channels.read(session.json, read_archived)).channel_list
