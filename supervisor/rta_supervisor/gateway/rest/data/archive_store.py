"""Finds what the archive has of a session: its folder, by the catalogue or by the archive that supervisors registered,
and in it manifests and configurations. What was found out about folders is kept for those that were used last.
"""

import collections
import time
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest.data import archive_blocks, archived_channels
from rta_supervisor.gateway.rest.data.archive_blocks import ArchivedData
from rta_supervisor.gateway.rest.data.stream_blocks import decode_limiter
from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_wire import errors, keys
from rta_wire.archive import names
from rta_wire.codec.layout import Plan

ARCHIVED_KEPT: Final = 64
"""Archived sessions whose files are known."""

LOOK_S: Final = 10.0
"""How long it holds that an archive which is not in the catalogue has no folder of a session."""

_Folder = tuple[float, Path | None]


class ArchiveStore:
    """The archive as requests need it. Where it can't be read, the stream alone is left, and that is logged."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._folders: collections.OrderedDict[tuple[str, str, int], _Folder] = collections.OrderedDict()
        self._archived: collections.OrderedDict[tuple[Path, Any], ArchivedData] = collections.OrderedDict()
        self._layouts: collections.OrderedDict[tuple[str, ...], Plan] = collections.OrderedDict()

    async def find(self, session: ListedSession) -> ArchivedData:
        """What the archive has of a session."""
        folder = await self._folder(session)
        if folder is None:
            return archive_blocks.NOTHING
        return await anyio.to_thread.run_sync(self._read_folder, folder, session.identity, limiter=decode_limiter)

    async def _folder(self, session: ListedSession) -> Path | None:
        key = session.stream, session.stream_session_id
        try:
            location = (await self._parts.catalogue.archive_folders([key])).get(key)
        except errors.CatalogueUnavailable:
            location = None
        if location:
            return Path(self._parts.config.archive.path, location)
        now_s = time.monotonic()
        due_s, folder = self._folders.get((session.identity, *key), (0.0, None))
        if now_s >= due_s:
            folder = await self._look(session)
            self._folders[session.identity, *key] = now_s + LOOK_S, folder
            while len(self._folders) > ARCHIVED_KEPT:
                self._folders.popitem(last=False)
        return folder

    async def _look(self, session: ListedSession) -> Path | None:
        """The folder of a session that is not in the catalogue, as readers in Spark find it."""
        try:
            raw = await self._parts.link.do("HGET", self._parts.keys.last_registration(), keys.NODE_ARCHIVE)
        except (*RETRIABLE_ERRORS, errors.RtaError):
            raw = None
        root = raw.decode(errors="replace") if raw else self._parts.config.archive.path
        if not root:
            return None
        return await anyio.to_thread.run_sync(_find_folder, Path(root), session, limiter=decode_limiter)

    async def read_config(self, archived: ArchivedData, identifier: str) -> bytes | None:
        """A configuration that was archived with a session."""
        return await anyio.to_thread.run_sync(
            archived_channels.read_config, archived.folder, identifier, limiter=decode_limiter
        )

    async def read_layouts(self, archived: ArchivedData) -> Plan:
        """Layouts of channels as the archive knows them."""
        if archived.message_files not in self._layouts:
            try:
                layouts = await anyio.to_thread.run_sync(
                    archived_channels.read_layouts, archived.message_files, limiter=decode_limiter
                )
            except archive_blocks.READ_ERRORS as error:
                _note_damaged(archived.folder, str(error))
                return Plan()
            self._layouts[archived.message_files] = layouts
            while len(self._layouts) > ARCHIVED_KEPT:
                self._layouts.popitem(last=False)
        return self._layouts[archived.message_files]

    def _read_folder(self, folder: Path, identity: str) -> ArchivedData:
        version = archive_blocks.folder_version(folder)
        if not version:
            log.get().warning("gateway_archive_unreadable", path=str(folder), error="it has no manifest, or is hidden")
            return archive_blocks.NOTHING
        archived = self._archived.pop((folder, version), None)
        if archived is None:
            try:
                archived = archive_blocks.read_folder(folder, identity, [name for name, _ in version], _note_damaged)
            except (errors.ArchiveDamaged, OSError) as error:
                _note_damaged(str(folder), str(error))
                return archive_blocks.NOTHING
        self._archived[folder, version] = archived
        while len(self._archived) > ARCHIVED_KEPT:
            self._archived.popitem(last=False)
        return archived


def _find_folder(root: Path, session: ListedSession) -> Path | None:
    # Names of folders hold no characters that are special in a pattern.
    pattern = f"date=*/source=*/{names.session_name(session.identity, session.stream_session_id)}"
    try:
        return next(iter(root.glob(pattern)), None)
    except OSError as error:
        _note_damaged(str(root), str(error))
        return None


def _note_damaged(path: str, error: str) -> None:
    log.get().warning("gateway_archive_unreadable", path=path, error=error)
