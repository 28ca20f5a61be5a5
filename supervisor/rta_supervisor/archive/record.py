"""Records that the archive has a session: in the catalogue, in the folded state of the session, and in the set of
sessions that the archive does not have.
"""

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import FILES, StorageLocation
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention.unarchived_session import JSON_ONLY, UnarchivedSession
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.service import reply_of
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.pb import control_pb2


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
        await self._catalogue.save_locations([_location(record.ref, request)])
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

    async def _unlist(self, ref: SessionRef) -> None:
        position = await self._link.do("HGET", self._keys.session(ref.identity), keys.STREAM_POSITION)
        positions = sorted({JSON_ONLY, entry_ids.MIN if position is None else position.decode()})
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
