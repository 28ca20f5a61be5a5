"""Sessions that can be archived, and files that are finalized."""

from pathlib import Path
from typing import Any

from rta_supervisor.archive import finalize as archive_finalize
from rta_supervisor.archive import verify
from rta_supervisor.archive.plan import ArchiveCandidate, PlannedPart
from rta_wire import archive_spec
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import Manifest
from rta_wire.session import State

NOON_MS = 1_778_932_800_000
"""2026-05-16, 12:00 UTC."""


def candidate(number: int = 7, **changes: Any) -> ArchiveCandidate:
    fields: dict[str, Any] = {
        "identity": f"run-{number}",
        "stream": "rig",
        "stream_session_id": number,
        "position": "5-0",
        "state": State.CLOSED,
        "version": 2,
        "opened_ms": NOON_MS,
        "updated_ms": NOON_MS + 1000,
        "samples": 0,
        "stored_bytes": 100,
        "document": b'{"identity": "run"}',
    }
    return ArchiveCandidate(**{**fields, **changes})


def planned(session: ArchiveCandidate, **changes: Any) -> PlannedPart:
    """The first part of a session, or another one."""
    fields: dict[str, Any] = {
        "archive": SessionArchive(session.identity),
        "number": 1,
        "after": session.position,
        "until": "999-0",
        "added": 100,
    }
    return PlannedPart(session, **{**fields, **changes})


def finalize(session: ArchiveCandidate, result: archive_spec.SessionResult, staging: Path, archive: Path) -> Manifest:
    """Verify the files of a closed session, and move them from the staging folder into the archive."""
    contents = verify.read_files(session.stream_session_id, result.files, staging)
    part = planned(session)
    missing = archive_finalize.describe_missing(part, result)
    if result.entries:
        archive_finalize.finalize_part(part, result, contents, staging, archive)
        missing = ()
    return archive_finalize.finalize_whole(session, archive, missing)
