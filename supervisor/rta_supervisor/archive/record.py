"""Records that the archive has a session: in the catalogue, in the folded state of the session, and in the set of
sessions that the archive does not have.
"""

from typing import Final

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import FILES, StorageLocation
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention.unarchived_session import JSON_ONLY, UnarchivedSession, first_unarchived
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.service import reply_of
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire.pb import control_pb2

ATTEMPTS: Final = 5
"""How often the record of a session may change while it is written."""


class ArchiveRecorder:
    """Records sessions whose files an operator has put into the archive. A repeated request changes nothing."""

    def __init__(self, link: Link, config: settings.Settings, sessions: SessionStore, catalogue: Catalogue) -> None:
        self._link = link
        self._keys = config.keys
        self._operators = config.control.operators
        self._config = config
        self._sessions = sessions
        self._catalogue = catalogue
        self._log = log.get()

    async def record(self, entry: ControlEntry, request: control_pb2.NoteArchived) -> control_pb2.SessionReply:
        """Serve one request. The catalogue comes first: people look there for files, and after the mark the session may
        expire."""
        record = await self._sessions.read(request.identity)
        if record is None or record.ref.stream_session_id != request.stream_session_id:
            raise errors.UnknownSession(identity=request.identity)
        if entry.principal not in self._operators:
            raise errors.SessionConflict(
                identity=request.identity, what="an archive of", theirs=", ".join(self._operators), ours=entry.principal
            )
        if request.entries or not request.until:
            await self._catalogue.save_locations([_location(record.ref, request)])
        if request.until:
            await self._record_parts(request)
            return reply_of(record)
        outcome = (
            await self._link.do(
                *retention_functions.mark_archived(self._keys, request, ttl_s=self._config.session.closed_ttl_s)
            )
        ).decode()
        if outcome == "unknown":
            raise errors.UnknownSession(identity=request.identity)
        if outcome == "open":
            reason = f"it is {record.state}. Close it first"
            raise errors.NotArchivable(identity=request.identity, reason=reason)
        if outcome == "changed":
            raise errors.ArchiveStale(identity=request.identity)
        await self._unlist(record.ref)
        counters.counts.archived += 1
        self._log.info(
            "session_archived", stream=record.ref.stream, location=request.location, bytes=request.size_bytes
        )
        return reply_of(record)

    async def _record_parts(self, request: control_pb2.NoteArchived) -> None:
        """Note how far the archive has an open session. From there on its entries may be trimmed."""
        value = f"{request.until} {request.added} {request.checksum}"
        for _ in range(ATTEMPTS):
            before = await self._link.do("HGET", self._keys.session_state(request.identity), keys.ARCHIVED_UNTIL)
            earlier = "" if before is None else before.decode()
            command = retention_functions.mark_archived_until(
                self._keys, request.identity, request.stream_session_id, earlier, value
            )
            outcome = (await self._link.do(*command)).decode()
            if outcome == "unknown":
                raise errors.UnknownSession(identity=request.identity)
            if outcome == "closed":
                raise errors.ArchiveStale(identity=request.identity)
            if outcome == "marked":
                counters.counts.archived_parts += earlier != value
                self._log.info("session_part_archived", location=request.location, until=request.until)
                return
        raise errors.ArchiveStale(identity=request.identity)

    async def _unlist(self, ref: SessionRef) -> None:
        position, archived_until = await self._link.do_all(
            [
                ("HGET", self._keys.session(ref.identity), keys.STREAM_POSITION),
                ("HGET", self._keys.session_state(ref.identity), keys.ARCHIVED_UNTIL),
            ]
        )
        # A supervisor of a version without parts lists a session by its beginning.
        positions = sorted({JSON_ONLY, first_unarchived(position, None), first_unarchived(position, archived_until)})
        members = [
            UnarchivedSession(ref.stream_session_id, ref.stream, listed, ref.identity).member for listed in positions
        ]
        await self._link.do("ZREM", self._keys.unarchived(), *members)


def _location(ref: SessionRef, request: control_pb2.NoteArchived) -> StorageLocation:
    return StorageLocation(
        stream=ref.stream,
        stream_session_id=ref.stream_session_id,
        kind=FILES,
        location=request.location,
        first_id=request.first_id,
        last_id=request.last_id,
        entries=request.entries,
        size_bytes=request.size_bytes,
        noted_ms=now_ms(),
    )
