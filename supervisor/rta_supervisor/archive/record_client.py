"""Asks a supervisor to record sessions whose files are in the archive. The supervisor's side is `record`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rta_supervisor.archive import candidates, finalize
from rta_supervisor.archive.plan import NO_CHECKSUM, ArchiveCandidate, PlannedPart
from rta_supervisor.control import client as control_client
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.archive.manifest import Manifest, PartManifest
from rta_wire.control import messages
from rta_wire.pb import control_pb2

ATTEMPTS: Final = 5
"""How often a session may change while its record is asked for."""


class ArchiveRecordClient:
    """Sends requests to record sessions."""

    def __init__(self, link: Link, config: settings.Settings, archive: Path, *, timeout_s: float) -> None:
        self._link = link
        self._config = config
        self._archive = archive
        self._operator = control_client.OperatorClient(link, config, timeout_s=timeout_s)

    async def record(self, candidate: ArchiveCandidate, manifest: Manifest) -> Manifest:
        """Have a session recorded. Returns its manifest, which is a newer one where its JSON changed meanwhile.

        Raises `UnknownSession` where the session has expired, and `ArchiveStale` where it changes again and again.
        """
        for _ in range(ATTEMPTS):
            try:
                await self._operator.request(_request(manifest, self._archive / candidate.folder))
            except errors.ArchiveStale:
                latest = (await candidates.read(self._link, self._config, [candidate.identity])).get(candidate.identity)
                if latest is None or latest.stream_session_id != candidate.stream_session_id:
                    raise errors.UnknownSession(identity=candidate.identity) from None
                manifest = finalize.refresh_manifest(latest, self._archive) or manifest
            else:
                return manifest
        raise errors.ArchiveStale(identity=candidate.identity)

    async def record_parts(
        self, candidate: ArchiveCandidate, planned: PlannedPart, parts: Sequence[PartManifest]
    ) -> None:
        """Have it recorded how far an open session is archived. Raises `ArchiveStale` where it was closed meanwhile."""
        with_entries = [part for part in parts if part.entries]
        await self._operator.request(
            control_pb2.NoteArchived(
                request_id=messages.new_request_id(),
                identity=candidate.identity,
                stream_session_id=candidate.stream_session_id,
                checksum=parts[-1].checksum if parts else NO_CHECKSUM,
                location=str(self._archive / candidate.folder),
                first_id=with_entries[0].first_id if with_entries else "",
                last_id=with_entries[-1].last_id if with_entries else "",
                entries=sum(part.entries for part in parts),
                size_bytes=sum(part.size_bytes for part in parts),
                until=planned.until,
                added=planned.added,
            )
        )


def _request(manifest: Manifest, folder: Path) -> control_pb2.NoteArchived:
    return control_pb2.NoteArchived(
        request_id=messages.new_request_id(),
        identity=manifest.identity,
        stream_session_id=manifest.stream_session_id,
        version=manifest.version,
        checksum=manifest.checksum,
        location=str(folder),
        first_id=manifest.first_id,
        last_id=manifest.last_id,
        entries=manifest.entries,
        size_bytes=manifest.size_bytes,
    )
