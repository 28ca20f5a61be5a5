"""Finds what the archive has of a session, and keeps what was made of its files for the viewers that want it next.

Where the catalogue or the files can't be read, that is logged, and the stream alone is left.
"""

import collections
import time
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.archived import part_files
from rta_supervisor.gateway.archived.part_files import ArchivedRange
from rta_supervisor.gateway.rest.data.archive_blocks import READ_ERRORS, folder_version
from rta_supervisor.settings import settings
from rta_wire import entry_ids, errors
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import PartManifest
from rta_wire.stream.cursor import StreamEntry

LOOK_S: Final = 2.0
"""How long what was found of a session holds: parts are added while it is open."""

SESSIONS_KEPT: Final = 64
RANGES_MAX_BYTES: Final = 64 * 1024 * 1024
"""Of entries that are kept. Viewers that subscribe together read them together."""

PARTS_AT_ONCE: Final = 1
"""Parts that are read at the same time: it takes a processor, which viewers of what is live need too."""


class SessionKey(msgspec.Struct, frozen=True):
    """A session, as the catalogue and the archive know it."""

    identity: str
    stream: str
    stream_session_id: int


class _Look(msgspec.Struct):
    """What the archive had of a session at a moment."""

    at_s: float
    folder: Path | None
    archive: SessionArchive | None


RangeKey = tuple[Path, int]
"""The folder of a session, and the number of a part."""


class ArchivedEntries:
    """Entries of all archived sessions."""

    def __init__(self, catalogue: Catalogue, config: settings.Settings) -> None:
        self._catalogue = catalogue
        self._config = config
        self._looks: collections.OrderedDict[SessionKey, _Look] = collections.OrderedDict()
        self._ranges: collections.OrderedDict[tuple[RangeKey, str], ArchivedRange] = collections.OrderedDict()
        self._range_bytes = 0
        self._lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(PARTS_AT_ONCE)

    async def read(self, session: SessionKey, after: str, until: str) -> list[StreamEntry]:
        """The next entries of a session after an id, up to and with another; none where the archive has no more."""
        look = await self._look(session)
        if look.archive is None or look.folder is None:
            return []
        for segment in look.archive.segments(after, until):
            position = segment.after
            while segment.part is not None and entry_ids.is_after(segment.until, position):
                found = await self._range(look.folder, segment.part, position, session)
                if found is None:
                    break
                low, high = entry_ids.parse(after), entry_ids.parse(until)
                if entries := [entry for entry in found.entries if low < entry_ids.parse(entry.id) <= high]:
                    return entries
                position = found.until
        return []

    async def covers(self, session: SessionKey, after: str, until: str) -> bool:
        """Whether the archive has everything that a session had after one id, up to and with another."""
        archive = (await self._look(session)).archive
        if archive is None:
            return False
        has_end = archive.whole is not None and not archive.lost_end
        if not has_end and entry_ids.is_after(until, archive.until):
            return False
        return all(segment.part is not None and not segment.part.gaps for segment in archive.segments(after, until))

    async def _look(self, session: SessionKey) -> _Look:
        look = self._looks.get(session)
        if look is None or time.monotonic() - look.at_s > LOOK_S:
            look = self._looks[session] = await self._find(session)
            self._looks.move_to_end(session)
            while len(self._looks) > SESSIONS_KEPT:
                self._looks.popitem(last=False)
        return look

    async def _find(self, session: SessionKey) -> _Look:
        now_s = time.monotonic()
        key = session.stream, session.stream_session_id
        try:
            location = (await self._catalogue.archive_folders([key])).get(key)
        except errors.CatalogueUnavailable as error:
            log.get().warning("gateway_archive_unreadable", path="", error=str(error))
            location = None
        if not location:
            return _Look(now_s, None, None)
        folder = Path(self._config.archive.path, location)
        archive = await anyio.to_thread.run_sync(_parse_folder, folder, session.identity, limiter=self._limiter)
        return _Look(now_s, folder, archive)

    async def _range(self, folder: Path, part: PartManifest, after: str, session: SessionKey) -> ArchivedRange | None:
        """Entries of a part behind an id; None where its files can't be read."""
        # One at a time: viewers that wait for the same one find it when it is their turn.
        async with self._lock:
            for (kept, _), found in self._ranges.items():
                if kept == (folder, part.number) and _has_next(found, after):
                    self._ranges.move_to_end((kept, found.until))
                    return found
            try:
                found = await anyio.to_thread.run_sync(
                    part_files.read_range, folder, part, after, part.until, limiter=self._limiter
                )
            except READ_ERRORS as error:
                log.get().warning("gateway_archive_unreadable", path=str(folder), error=str(error))
                return None
            log.get().debug("gateway_archive_read", session=session.identity, part=part.number, until=found.until)
            self._keep((folder, part.number), found)
            return found

    def _keep(self, key: RangeKey, found: ArchivedRange) -> None:
        replaced = self._ranges.pop((key, found.until), None)
        self._ranges[key, found.until] = found
        self._range_bytes += _size_bytes(found) - (0 if replaced is None else _size_bytes(replaced))
        while self._range_bytes > RANGES_MAX_BYTES and len(self._ranges) > 1:
            _, oldest = self._ranges.popitem(last=False)
            self._range_bytes -= _size_bytes(oldest)


def _has_next(found: ArchivedRange, after: str) -> bool:
    """Whether a range has what comes right after an id."""
    return not entry_ids.is_after(found.after, after) and entry_ids.is_after(found.until, after)


def _size_bytes(found: ArchivedRange) -> int:
    return sum(len(entry.data) for entry in found.entries)


def _parse_folder(folder: Path, identity: str) -> SessionArchive | None:
    try:
        contents = {name: (folder / name).read_bytes() for name, _ in folder_version(folder)}
        if not contents:
            log.get().warning("gateway_archive_unreadable", path=str(folder), error="it has no manifest, or is hidden")
            return None
        return SessionArchive.parse(identity, contents, str(folder))
    except (errors.ArchiveDamaged, OSError) as error:
        log.get().warning("gateway_archive_unreadable", path=str(folder), error=str(error))
        return None
