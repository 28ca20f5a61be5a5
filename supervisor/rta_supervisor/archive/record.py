"""Notes that the archive has a session: in the catalogue, in the session's state, in the list of those that wait."""

from rta_supervisor.catalogue.model import Catalogue, StorageLocation
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import functions as retention_functions
from rta_supervisor.retention.archive_queue import JSON_ONLY, UnarchivedSession
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.session.service import reply_of
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.pb import control_pb2

FILES = "files"


class ArchiveRecorder:
    """Does what an operator asks for whose files are in their place. Repeating it changes nothing."""

    def __init__(self, link: Link, config: settings.Settings, sessions: SessionStore, catalogue: Catalogue) -> None:
        self._link = link
        self._keys = config.keys
        self._operators = config.control.operators
        self._config = config
        self._sessions = sessions
        self._catalogue = catalogue
        self._log = log.get()

    async def record(self, entry: ControlEntry, request: control_pb2.NoteArchived) -> control_pb2.SessionReply:
        """The catalogue first: it is where people look for files, and a mark lets everything else go."""
        known = await self._sessions.read(request.identity)
        if known is None or known.ref.stream_session_id != request.stream_session_id:
            raise errors.UnknownSession(identity=request.identity)
        if entry.principal not in self._operators:
            raise errors.SessionConflict(
                identity=request.identity, what="an archive of", theirs=", ".join(self._operators), ours=entry.principal
            )
        await self._catalogue.save_locations([_place(known, request)])
        outcome = (
            await self._link.do(
                *retention_functions.mark_archived(self._keys, request, ttl_s=self._config.session.closed_ttl_s)
            )
        ).decode()
        if outcome == "unknown":
            raise errors.UnknownSession(identity=request.identity)
        if outcome == "open":
            reason = f"it is {known.state}. Close it first"
            raise errors.NotArchivable(identity=request.identity, reason=reason)
        if outcome == "changed":
            raise errors.ArchiveStale(identity=request.identity)
        await self._unlist(known)
        counters.counts.archived += 1
        self._log.info("session_archived", stream=known.ref.stream, location=request.location, bytes=request.size_bytes)
        return reply_of(known)

    async def _unlist(self, known: SessionRecord) -> None:
        ref = known.ref
        position = await self._link.do("HGET", self._keys.session(ref.identity), keys.STREAM_POSITION)
        places = {JSON_ONLY, entry_ids.MIN if position is None else position.decode()}
        members = [
            UnarchivedSession(ref.stream_session_id, ref.stream, place, ref.identity).member for place in sorted(places)
        ]
        await self._link.do("ZREM", self._keys.unarchived(), *members)


def _place(known: SessionRecord, request: control_pb2.NoteArchived) -> StorageLocation:
    return StorageLocation(
        stream=known.ref.stream,
        stream_session_id=known.ref.stream_session_id,
        kind=FILES,
        location=request.location,
        first_id=request.first_id,
        last_id=request.last_id,
        entries=request.entries,
        size_bytes=request.size_bytes,
        noted_ms=now_ms(),
    )
