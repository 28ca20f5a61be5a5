"""Sessions that the archive may take, and files that are finished."""

from pathlib import Path
from typing import Any

from rta_supervisor.archive import finalize, manifest
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_wire import archive_spec
from rta_wire.session import State

NOON_MS = 1_778_932_800_000
"""2026-05-16, 12:00 UTC."""


def candidate(number: int = 7, **other: Any) -> ArchiveCandidate:
    facts: dict[str, Any] = {
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
    return ArchiveCandidate(**{**facts, **other})


def finish(
    session: ArchiveCandidate, outcome: archive_spec.SessionResult, aside: Path, archive: Path
) -> manifest.Manifest:
    checked = finalize.verify_files(session.stream_session_id, outcome.files, aside)
    return finalize.finalize(session, outcome, checked, aside, archive)
